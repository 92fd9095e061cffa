// The attention page: all heads as a grid of small pictures, each of which tells its weights when pointed at
// and can be looked at in large. The page's script draws them, since tens of thousands of cells are too many
// as elements; what it draws lies in the page as numbers.

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/attention_view.h"
#include "transduce/base/text.h"
#include "transduce/page/html.h"

namespace transduce::cli {
namespace {

constexpr std::string_view kStyle = R"(
.sentence { display: grid; grid-template-columns: auto 1fr; gap: 2px 14px; margin: 4px 0 14px; }
.sentence dt { color: var(--muted); }
.sentence dd { margin: 0; overflow-wrap: anywhere; }
.scale { display: inline-flex; align-items: center; gap: 8px; color: var(--muted); font-size: 0.9rem; }
.scale i { width: 120px; height: 12px; border: 1px solid var(--line);
  background: linear-gradient(to right, transparent, var(--accent)); }
.heads { display: grid; gap: 14px 18px; margin: 10px 0 18px; }
.head { margin: 0; min-width: 0; }
.head canvas, dialog canvas { display: block; outline: none; }
canvas:focus-visible { box-shadow: 0 0 0 2px var(--accent); }
.head figcaption { display: flex; flex-wrap: wrap; gap: 0 10px; align-items: baseline; font-size: 0.85rem; }
button { font: inherit; color: var(--accent); background: none; border: 0; padding: 4px 0; cursor: pointer; }
button:hover { text-decoration: underline; }
#tip { position: fixed; z-index: 2; left: 0; top: 0; max-width: min(320px, 90vw); padding: 4px 9px; border-radius: 6px;
  background: var(--ink); color: var(--paper); font-size: 0.9rem; pointer-events: none; visibility: hidden;
  overflow-wrap: anywhere; }
#tip b { font-variant-numeric: tabular-nums; margin-inline-start: 8px; }
dialog { width: min(1000px, calc(100vw - 16px)); max-width: none; max-height: calc(100dvh - 16px); padding: 14px 16px;
  border: 1px solid var(--line); border-radius: 10px; background: var(--paper); color: var(--ink); overflow: auto; }
dialog::backdrop { background: rgb(0 0 0 / 0.5); }
dialog button { padding: 4px 10px; }
dialog header { display: flex; justify-content: space-between; gap: 12px; align-items: baseline; margin-bottom: 8px; }
)";

constexpr std::string_view kScript = R"JS("use strict";
const data = JSON.parse(document.getElementById("attention").textContent);
const tip = document.getElementById("tip");
const dialog = document.querySelector("dialog");
const ratio = () => window.devicePixelRatio || 1;
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const family = getComputedStyle(document.body).fontFamily;
const ruler = document.createElement("canvas").getContext("2d");

function widthOf(text, size) {
  ruler.font = size + "px " + family;
  return ruler.measureText(text).width;
}
function shortened(text, size, most) {
  if (widthOf(text, size) <= most) return text;
  const letters = Array.from(text);
  while (letters.length > 1 && widthOf(letters.join("") + "…", size) > most) letters.pop();
  return letters.join("") + "…";
}

// A head drawn on a canvas of its own.
class Picture {
  constructor(section, map, canvas) {
    Object.assign(this, { section, map, canvas, cell: null });
    this.rows = data.tokens[section.rows];
    this.columns = data.tokens[section.columns];
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", section.name + ", layer " + map.layer + ", head " + map.head);
    canvas.addEventListener("pointermove", event => this.point(event));
    canvas.addEventListener("pointerdown", event => this.point(event));
    canvas.addEventListener("pointerleave", event => { if (event.pointerType === "mouse") this.choose(null); });
    canvas.addEventListener("blur", () => this.choose(null));
    canvas.addEventListener("keydown", event => this.key(event));
  }
  // Fits the canvas to `width` with cells from `smallest` to `largest`; labels take at most `labels`.
  fit(width, smallest, largest, labels) {
    const longest = (texts, size) => 1.08 * Math.max(...texts.map(text => widthOf(text, size)));  // room for bold
    this.labels = labels / 1.08;
    let size = 12;
    for (let pass = 0; pass < 2; ++pass) {  // the labels' size follows the cells', which follow the labels' width
      this.font = size;
      this.left = Math.ceil(Math.min(longest(this.rows, size), labels)) + 6;
      this.size = Math.max(smallest, Math.min(largest, (width - this.left - 1) / this.columns.length));
      size = Math.max(9, Math.min(largest > 30 ? 15 : 12, this.size * 0.8));
    }
    this.font = Math.min(this.font, size);
    this.top = Math.ceil(Math.max(this.font, Math.min(longest(this.columns, this.font), labels))) + 6;
    this.width = Math.ceil(this.left + this.columns.length * this.size) + 1;
    this.height = Math.ceil(this.top + this.rows.length * this.size) + 1;
    this.canvas.style.width = this.width + "px";
    this.canvas.style.height = this.height + "px";
  }
  // Memory for the pixels is taken only while they can be seen.
  show(visible) {
    this.visible = visible;
    if (visible) this.draw();
    else this.canvas.width = this.canvas.height = 0;
  }
  edge(from, i) { return Math.round((from + i * this.size) * ratio()) / ratio(); }
  draw() {
    if (!this.visible) return;
    this.canvas.width = Math.round(this.width * ratio());
    this.canvas.height = Math.round(this.height * ratio());
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio(), ratio());
    pen.fillStyle = colour("--accent");
    const weights = this.map.weights, count = this.columns.length;
    for (let i = 0; i < weights.length; ++i) {
      if (weights[i] < 40) continue;
      const x = this.edge(this.left, i % count), y = this.edge(this.top, Math.floor(i / count));
      pen.globalAlpha = Math.min(1, weights[i] / 10000);
      pen.fillRect(x, y, this.edge(this.left, i % count + 1) - x, this.edge(this.top, Math.floor(i / count) + 1) - y);
    }
    pen.globalAlpha = 1;
    pen.strokeStyle = colour("--line");
    pen.strokeRect(this.left + 0.5, this.top + 0.5, count * this.size - 1, this.rows.length * this.size - 1);
    this.drawLabels(pen);
    if (this.cell) {
      pen.strokeStyle = colour("--ink");
      pen.lineWidth = 1.5;
      pen.strokeRect(this.edge(this.left, this.cell.column), this.edge(this.top, this.cell.row), this.size, this.size);
    }
  }
  drawLabels(pen) {
    const step = Math.ceil(this.font * 1.1 / this.size), ink = colour("--ink"), muted = colour("--muted");
    const shown = (i, chosen) => this.cell ? i === chosen || (i % step === 0 && Math.abs(i - chosen) >= step) : i % step === 0;
    pen.textBaseline = "middle";
    pen.direction = "ltr";
    const label = (text, chosen) => {
      pen.fillStyle = !this.cell || chosen ? ink : muted;
      pen.font = (this.cell && chosen ? "bold " : "") + this.font + "px " + family;
      return shortened(text, this.font, this.labels);
    };
    pen.textAlign = "right";
    this.rows.forEach((text, i) => {
      if (!shown(i, this.cell && this.cell.row)) return;
      pen.fillText(label(text, this.cell && i === this.cell.row), this.left - 5, this.top + (i + 0.5) * this.size);
    });
    this.columns.forEach((text, i) => {
      if (!shown(i, this.cell && this.cell.column)) return;
      const short = label(text, this.cell && i === this.cell.column);
      pen.save();
      pen.translate(this.left + (i + 0.5) * this.size, this.top - 5);
      if (widthOf(text, this.font) <= this.size) {
        pen.textAlign = "center";
        pen.textBaseline = "bottom";
      } else {
        pen.textAlign = "left";
        pen.rotate(-Math.PI / 2);
      }
      pen.fillText(short, 0, 0);
      pen.restore();
    });
  }
  point(event) {
    const box = this.canvas.getBoundingClientRect();
    const scale = this.width / box.width;
    this.choose({ row: Math.floor(((event.clientY - box.top) * scale - this.top) / this.size),
                  column: Math.floor(((event.clientX - box.left) * scale - this.left) / this.size) },
                event.clientX, event.clientY);
  }
  key(event) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const from = this.cell || { row: 0, column: 0 };
    const within = (i, count) => Math.max(0, Math.min(count - 1, i));
    const cell = this.cell ? { row: within(from.row + step[0], this.rows.length),
                               column: within(from.column + step[1], this.columns.length) } : from;
    const box = this.canvas.getBoundingClientRect();
    this.choose(cell, box.left + this.left + (cell.column + 1) * this.size, box.top + this.top + cell.row * this.size);
  }
  choose(cell, x, y) {
    const outside = !cell || cell.row < 0 || cell.column < 0 || cell.row >= this.rows.length ||
                    cell.column >= this.columns.length;
    const before = this.cell;
    this.cell = outside ? null : cell;
    tip.style.visibility = outside ? "hidden" : "visible";
    if (!outside) {
      const weight = this.map.weights[cell.row * this.columns.length + cell.column] / 10000;
      tip.replaceChildren(isolated(this.rows[cell.row]), " → ", isolated(this.columns[cell.column]),
                          element("b", weight.toFixed(4)));
      const box = tip.getBoundingClientRect();
      const left = Math.max(4, Math.min(x + 14, window.innerWidth - box.width - 4));
      const top = y - box.height - 12 < 4 ? y + 18 : y - box.height - 12;
      tip.style.transform = "translate(" + left + "px," + top + "px)";
    }
    const same = before && this.cell && before.row === this.cell.row && before.column === this.cell.column;
    if (!same && (before || this.cell)) this.draw();
  }
}

function element(name, text, kind) {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}
const isolated = text => element("bdi", text);

const pictures = [];
const seen = new IntersectionObserver(entries => {
  for (const entry of entries) entry.target.picture.show(entry.isIntersecting);
}, { rootMargin: "200px" });
let large = null;

function enlarge(section, map) {
  dialog.querySelector("b").textContent = section.name + ", layer " + map.layer + ", head " + map.head;
  const canvas = document.createElement("canvas");
  dialog.querySelector(".scroll").replaceChildren(canvas);
  dialog.append(tip);  // above the dialog, which lies above the page
  dialog.showModal();
  large = new Picture(section, map, canvas);
  fitLarge();
  large.show(true);
}
function fitLarge() {
  const room = dialog.clientWidth - 34;
  const rows = data.tokens[large.section.rows].length;
  large.fit(room, 20, Math.max(20, Math.min(56, (window.innerHeight - 190) / rows)), Math.min(160, room / 3));
  large.draw();
}
dialog.querySelector("button").addEventListener("click", () => dialog.close());
dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
dialog.addEventListener("close", () => {
  large.choose(null);
  large = null;
  document.body.append(tip);
});

for (const section of data.sections) {
  const place = document.getElementById(section.id);
  let heads = null, layer = 0;
  for (const map of section.maps) {
    if (map.layer !== layer) {
      layer = map.layer;
      heads = element("div", "", "heads");
      place.append(element("h3", "Layer " + layer), heads);
    }
    const figure = element("figure", "", "head"), caption = element("figcaption", "");
    const canvas = document.createElement("canvas");
    const button = element("button", "Head " + map.head);
    button.title = "Show this head in large";
    button.addEventListener("click", () => enlarge(section, map));
    caption.append(button);
    if (map.note) caption.append(element("span", map.note));
    figure.append(canvas, caption);
    heads.append(figure);
    canvas.picture = new Picture(section, map, canvas);
    pictures.push(canvas.picture);
    seen.observe(canvas);
  }
}

// As many columns as give every head room for its tokens, evenly filled.
function layout() {
  for (const heads of document.querySelectorAll(".heads")) {
    const canvases = Array.from(heads.querySelectorAll("canvas"));
    const first = canvases[0].picture, gap = 18, room = heads.clientWidth;
    first.fit(10000, 0, 11, 90);
    const wanted = Math.max(150, Math.min(first.width, 440));
    const most = Math.max(1, Math.floor((room + gap) / (wanted + gap)));
    const columns = Math.ceil(canvases.length / Math.ceil(canvases.length / most));
    heads.style.gridTemplateColumns = "repeat(" + columns + ", minmax(0, 1fr))";
    const width = (room - (columns - 1) * gap) / columns;
    for (const canvas of canvases) {
      canvas.picture.fit(width, 0, 24, Math.min(90, width / 3));
      canvas.picture.draw();
    }
  }
  if (large) fitLarge();
}
let waiting = 0;
window.addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(layout); });
window.addEventListener("scroll", () => { tip.style.visibility = "hidden"; }, { passive: true });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const picture of pictures) picture.draw();
  if (large) large.draw();
});
layout();
)JS";

struct Section {
  const char* id;
  const char* name;
  const char* rows;     // which tokens look
  const char* columns;  // and at which
  const char* text;
  const std::vector<AttentionMap>* maps;
};

std::vector<Section> sections_of(const AttentionView& view) {
  return {{"cross", "Cross-attention", "chosen", "source",
           "Row: the token that is being chosen. Column: the source token that the decoder looks at for it.",
           &view.maps.cross},
          {"encoder", "Encoder self-attention", "source", "source",
           "Row: a source token. Column: the source token it looks at.", &view.maps.encoder},
          {"decoder", "Decoder self-attention", "read", "read",
           "Row: the token that the decoder has just read. Column: the token it looks at, itself or an "
           "earlier one.",
           &view.maps.decoder}};
}

std::string percent(double share) { return fmt::format("{:.1f}\u00A0%", 100.0 * share); }

// Weights as ten-thousandths: most are 0, so this is short.
nlohmann::ordered_json data_of(const AttentionView& view, const std::vector<Section>& sections) {
  nlohmann::ordered_json data{{"tokens",
                               {{"source", labels_of(view.source)},
                                {"read", labels_of(view.read)},
                                {"chosen", labels_of(view.chosen)}}},
                              {"sections", nlohmann::ordered_json::array()}};
  for (const Section& section : sections) {
    if (section.maps->empty()) continue;
    nlohmann::ordered_json maps = nlohmann::ordered_json::array();
    for (const AttentionMap& map : *section.maps) {
      nlohmann::ordered_json one{{"layer", map.layer}, {"head", map.head}};
      if (section.maps == &view.maps.cross) {
        const DiagonalShare share = view.share(map);
        one["note"] = fmt::format("diagonal {}, anti-diagonal {}", percent(share.diagonal),
                                  percent(share.anti_diagonal));
      }
      std::vector<int> weights;
      for (const float weight : map.matrix.weights) {
        weights.push_back(static_cast<int>(std::lround(10000.0 * static_cast<double>(weight))));
      }
      one["weights"] = std::move(weights);
      maps.push_back(std::move(one));
    }
    data["sections"].push_back({{"id", section.id},
                                {"name", section.name},
                                {"rows", section.rows},
                                {"columns", section.columns},
                                {"maps", std::move(maps)}});
  }
  return data;
}

// The measure of how straight the cross-attention goes, in words.
std::string straightness(const AttentionView& view) {
  if (view.maps.cross.empty()) return "";
  const auto best = [&](double DiagonalShare::*diagonal) {
    const AttentionMap& map = *view.best(diagonal);
    return fmt::format("{} in layer {}, head {}", percent(view.share(map).*diagonal), map.layer, map.head);
  };
  return fmt::format(
      "<p>Of the cross-attention, at most {} lies on the diagonal, where a model that copies looks, and at "
      "most {} on "
      "the anti-diagonal, where one that reverses looks. Spread evenly it would be {}.</p>\n",
      best(&DiagonalShare::diagonal), best(&DiagonalShare::anti_diagonal),
      percent(1.0 / static_cast<double>(view.source.size())));
}

}  // namespace

std::string attention_page(const AttentionView& view) {
  const std::vector<Section> sections = sections_of(view);
  page::Page page;
  page.title = "Attention";
  page.style = kStyle;
  page.script = kScript;
  page.body = fmt::format(
      "<dl class=\"sentence\"><dt>source</dt><dd>{}</dd><dt>{}</dt><dd>{}</dd></dl>\n"
      "<p>Each picture is one head. A cell is the weight that the token of its row gives to the token of its "
      "column; "
      "every row sums to 1. Point at a cell, or move there with the arrow keys, to read it; a head's name "
      "shows it in "
      "large.</p>\n<p class=\"scale\">0<i></i>1</p>\n",
      page::isolated(view.source_text), view.forced ? "output (given)" : "output",
      page::isolated(view.output_text));
  page.body += straightness(view);
  for (const Section& section : sections) {
    if (section.maps->empty()) continue;
    page.body += fmt::format("<section id=\"{}\"><h2>{}</h2><p class=\"muted\">{}</p></section>\n",
                             section.id, section.name, section.text);
  }
  page.body +=
      "<noscript><p>The pictures are drawn by a script within this page; allow it to run.</p></noscript>\n"
      "<div id=\"tip\" role=\"status\"></div>\n<dialog aria-label=\"One head in "
      "large\"><header><b></b><button "
      "type=\"button\">Close</button></header><div class=\"scroll\"></div></dialog>\n";
  page.body += page::data_element("attention", data_of(view, sections));
  return page::render(page);
}

}  // namespace transduce::cli
