#pragma once

// Texts that have gone wrong for somebody, reduced, and some more of each kind.

#include <string>
#include <vector>

namespace transduce::testing {

inline std::vector<std::string> odd_texts() {
  using namespace std::string_literals;
  std::vector<std::string> texts = {
      "",
      " ",
      " \t  ",
      "The house is standing beside the river.",
      "  spaces   before,  between  and after  ",
      "a CR\rin mid-line",  // flores PR#9, sacrebleu PR#24
      "a CR at the end\r",
      "a line\u2028separator and\u2029another\u0085one",
      "before NUL\0after NUL"s,  // spm#331, #1308
      "\0"s,
      "\uFEFFa byte-order mark and \uFEFFanother",       // UD_German-GSD#29
      "12:30\tAnna\thello\tthere",                       // argos-translate-files#11
      "می\u200Cخواهم \u200Fشالوم\u200E क\u094D\u200Dष",  // spm#629, #896, #1331
      "👩\u200D👩\u200D👧 \u2066isolated\u2069 zero\u200Bwidth",
      "한국어 학교에 갔습니다",  // huggingface/tokenizers#1975
      "\u1112\u1161\u11AB\u1100\u116E\u11A8\u110B\u1165",
      "e\u0301te\u0301 ﬁne ½ ² ＡＢＣ ㎏ ﷺ",
      "Well done 👍",                     // argos-translate#77
      "</s> <s> <pad> <unk> text </s>",  // spm#102, #667
      "<0x41><0x0A>",
      "▁lower▁block▁",
      "▅ unknown block ⁇",
      "\xFF\xFE invalid \xC3 bytes \xED\xA0\x80 and \xF4\x90\x80\x80",
      "\xE0\x80",
      "cut off \xF0\x9F\x91",
      "@@ joined@@ up @@",
      "|||",
      "\\ \" ' ` ,",
      "\x01\x02\x1B[31m control \x7F",
      "中文 русский العربية ไทย हिन्दी",
      "ＦＵＬＬ　ＷＩＤＴＨ",
      "\u00A0no-break\u3000ideographic\u2003em",
  };
  std::string word, words;
  for (int i = 0; i < 20000; ++i) word += static_cast<char>('a' + i * 7919 % 26);
  for (int i = 0; i < 5000; ++i) words += "The old house, ";
  texts.push_back(word);
  texts.push_back(words);
  texts.push_back(std::string(3000, ' ') + "far away");
  texts.push_back(std::string(2000, '\xFF'));
  return texts;
}

}  // namespace transduce::testing
