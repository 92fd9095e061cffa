// transduce lab from the outside: its forms of output and its refusals. What it measures: tests/lab.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace transduce::testing {
namespace {

TEST(LabCommand, PrintsATableJsonAndAPage) {
  const Workplace place;
  const Result table = place.run("lab activation budget --html page.html");
  EXPECT_EQ(table.status, 0) << table.errors;
  EXPECT_NE(table.output.find("GELU(1)"), std::string::npos);
  EXPECT_NE(table.output.find("not reproduced"), std::string::npos);
  const std::string page = contents(place / "page.html");
  for (const char* part : {"<h2 id=\"activation\">", "<h2 id=\"budget\">", "1,050,624", "<svg"})
    EXPECT_NE(page.find(part), std::string::npos) << part;

  const Result json = place.run("lab activation --json");
  EXPECT_EQ(json.status, 0) << json.errors;
  const auto read = nlohmann::json::parse(json.output);
  EXPECT_EQ(read["experiment"], "activation");
  EXPECT_EQ(read["claims"][0]["published"], "0.8413");
  EXPECT_EQ(read["claims"][0]["verdict"], "exact");
}

TEST(LabCommand, RefusesInOneLine) {
  const Workplace place;
  for (const auto& [arguments, said] : {std::pair{"lab", "experiment"},
                                        {"lab resid", "resid"},
                                        {"lab budget --html absent/page.html", "absent"}}) {
    const Result result = place.run(arguments);
    EXPECT_NE(result.status, 0) << arguments;
    EXPECT_TRUE(result.output.empty()) << arguments << ": " << result.output;
    EXPECT_NE(result.errors.find(said), std::string::npos) << result.errors;
    EXPECT_EQ(result.errors.find('\n'), result.errors.size() - 1) << result.errors;
  }
  EXPECT_EQ(place.run("lab resid").status, 2);
}

}  // namespace
}  // namespace transduce::testing
