// page.h — renders a document as one self-contained HTML file: no network, no other files. It can
// be mailed and printed, in light and dark mode.
//
// Invariants
// (1) Text of a document is data in the page, never markup. It is JSON with escaped '<', and the
//     script inserts it only as text nodes.
// (2) The page loads nothing: its Content-Security-Policy forbids it.
//
// The parts are in page/: page.html, page.css, page.js, and D3 7.9.0 (page/d3-7.9.0, ISC licence,
// unchanged from the npm package). The build turns them into constants (page/embed.cmake).
#pragma once

#include <string>
#include <vector>

#include "sim/output/document.h"

namespace sim::output {

std::string page(const Document& document);

// The page of `rehearse serve`: the same module with controls. It asks only its own server
// for documents. `read_only`: the server answers no replays. `folders`: names of folders with
// results that it shows.
std::string live_page(bool read_only, const std::vector<std::string>& folders = {});

// Escapes text for an HTML element or an attribute in double quotes.
std::string escape_html(std::string_view text);

}  // namespace sim::output
