#include "sim/output/page.h"

#include <cassert>

#include "page_parts.h"

namespace sim::output {

namespace {

// Replaces the only occurrence of `mark`.
std::string filled(std::string text, std::string_view mark, std::string_view with) {
  const std::size_t at = text.find(mark);
  assert(at != std::string::npos);
  return text.replace(at, mark.size(), with);
}

// JSON that cannot end its script element or open a comment in it.
std::string inert(const Json& json) {
  const std::string plain = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string text;
  text.reserve(plain.size());
  for (const char c : plain) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

namespace {

// The page with its parts. `data` is inserted last, since its text may look like a mark.
std::string whole_page(bool live, const Json& data, std::string_view title) {
  std::string text =
      filled(std::string(page_html), "@connect@", live ? "; connect-src 'self'" : "");
  text = filled(std::move(text), "@live@", live ? " class=\"live\"" : "");
  text = filled(std::move(text), "@style@",
                std::string(page_css) + (live ? std::string(page_live_css) : ""));
  text = filled(std::move(text), "@d3@", page_d3);
  text = filled(std::move(text), "@script@",
                std::string(page_js) + (live ? std::string(page_live_js) : ""));
  text = filled(std::move(text), "@data@", inert(data));
  return filled(std::move(text), "@title@", escape_html(title));
}

}  // namespace

std::string page(const Document& document) {
  return whole_page(false, to_json(document), document.title);
}

std::string live_page(bool read_only, const std::vector<std::string>& folders) {
  Json data = to_json(Document{"rehearse", "", {}, {}});
  data.erase("blocks");
  data["read_only"] = read_only;
  data["folders"] = folders;
  return whole_page(true, data, "rehearse");
}

}  // namespace sim::output
