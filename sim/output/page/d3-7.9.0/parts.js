// parts.js — the parts of D3 that page.js and live.js use. d3.min.js is made from this file:
//
//   npm install d3@7.9.0 esbuild && npx esbuild parts.js --bundle --minify --format=iife
//     --global-name=d3 --charset=ascii --legal-comments=none --outfile=d3.min.js
//
// tests/output/page_test.cpp checks that both scripts use no other part. Versions of the modules in
// d3.min.js: array 3.2.5, axis 3.0.1, color 3.1.1, dispatch 3.0.2, drag 3.0.1, ease 3.0.2, format
// 3.1.3, interpolate 3.0.2, path 3.1.1, scale 4.0.3, scale-chromatic 3.1.1, selection 3.0.1, shape
// 3.2.1, timer 3.0.2, transition 3.0.2, zoom 3.0.1, internmap 2.0.3.
export { ascending, descending, extent, greatest, groups, max, min, range, sort, sum } from "d3-array";
export { axisBottom, axisLeft, axisTop } from "d3-axis";
export { lab } from "d3-color";
export { format } from "d3-format";
export { scaleBand, scaleLinear, scaleSequential } from "d3-scale";
export { interpolateViridis } from "d3-scale-chromatic";
export { select, selectAll } from "d3-selection";
export { area, curveStepAfter, line, stack, symbol, symbolCircle, symbolCross, symbolDiamond,
  symbolSquare, symbolStar, symbolTimes, symbolTriangle, symbolWye } from "d3-shape";
export { zoom, zoomIdentity, zoomTransform } from "d3-zoom";
