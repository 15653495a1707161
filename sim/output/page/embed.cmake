# embed.cmake — makes constants of the parts of the page.
# cmake -DFOLDER=sim/output/page -DOUTPUT=page_parts.h -P embed.cmake
cmake_policy(VERSION 3.25)
set(parts page_html page.html page_css page.css page_js page.js page_live_js live.js
    page_live_css live.css page_d3 d3-7.9.0/d3.min.js)
set(text "// page_parts.h: made by sim/output/page/embed.cmake\n#pragma once\n\n")
string(APPEND text "#include <string_view>\n\nnamespace sim::output {\n\n")
while(parts)
  list(POP_FRONT parts name file)
  file(READ "${FOLDER}/${file}" hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
  string(APPEND text "inline constexpr char ${name}_bytes[] = {${bytes}};\n")
  string(APPEND text "inline constexpr std::string_view ${name}{${name}_bytes, sizeof ${name}_bytes};\n\n")
endwhile()
string(APPEND text "}  // namespace sim::output\n")
file(WRITE "${OUTPUT}" "${text}")
