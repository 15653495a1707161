// page.h — a document as one HTML file that needs nothing else: no network, no folder beside it. It
// opens from a mail, prints, and reads in light and dark.
//
// Invariants
//  (1) Text of a document is data in the page, never markup: it is written as JSON in which '<' is
//      escaped, and the page's script puts it into text nodes only.
//  (2) The page loads nothing: its policy forbids it (Content-Security-Policy).
//
// The parts are in page/: page.html, page.css, page.js, and D3 7.9.0 (page/d3-7.9.0, ISC licence,
// the file of the npm package as it is). The build makes constants of them (page/embed.cmake).
#pragma once

#include <string>

#include "sim/output/document.h"

namespace sim::output {

std::string page(const Document& document);

// What a text is inside of an HTML element or an attribute in double quotes.
std::string escape_html(std::string_view text);

}  // namespace sim::output
