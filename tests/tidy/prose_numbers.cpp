// prose_numbers.cpp — a number in the text of a page of results/ can be traced. A number counts if
// it has a decimal point, a percent sign or a unit. It is traced if one of these holds:
//
//   - a transcript or a command of the page has it, or a number that rounds to it;
//   - the page's table of evidence has it as what the source measured or states;
//   - its paragraph, or the paragraph before its table, names a source: a link out of the
//     repository, a paper, a file of the repository, or the word "recalled";
//   - its column of a table is headed as published, measured or the source's.
//
// Numbers of two tables are traced on the page that their row links: of errors in README.md, and of
// systems in results/README.md.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

const fs::path root = REHEARSE_SOURCE_DIR;

using Cells = std::vector<std::string>;

// A paragraph, an item of a list or a row of a table.
struct Piece {
  std::string text;      // of a row: without the cells of published columns
  bool sourced = false;  // names a source, or stands in a table whose lead-in does
};

struct Page {
  std::vector<Piece> pieces;
  std::set<double> printed;  // numbers of transcripts, commands and the source's evidence
};

Cells cells(const std::string& row) {
  Cells found;
  std::size_t begin = 1;
  for (std::size_t end; (end = row.find('|', begin)) != std::string::npos; begin = end + 1) {
    const std::string cell = row.substr(begin, end - begin);
    const std::size_t first = cell.find_first_not_of(' ');
    found.push_back(first == std::string::npos
                        ? ""
                        : cell.substr(first, cell.find_last_not_of(' ') - first + 1));
  }
  return found;
}

double value_of(std::string digits) {
  std::erase(digits, ',');
  return std::stod(digits);
}

// All numbers of a text, whatever stands around them.
void add_numbers(const std::string& text, std::set<double>& to) {
  static const std::regex number(R"(\d{1,3}(,\d{3})+(\.\d+)?|\d+(\.\d+)?)");
  for (std::sregex_iterator at(text.begin(), text.end(), number), end; at != end; ++at)
    to.insert(value_of(at->str()));
}

bool names_source(const std::string& text) {
  static const std::regex outside(R"(\]\(http|arXiv|recalled)"), file(R"(`([\w./-]+))");
  if (std::regex_search(text, outside)) return true;
  for (std::sregex_iterator at(text.begin(), text.end(), file), end; at != end; ++at)
    if (fs::is_regular_file(root / (*at)[1].str())) return true;
  return false;
}

// Code, targets of links and names of papers hold no measured numbers.
std::string without_names(const std::string& text) {
  static const std::regex names(R"(`[^`]*`|\]\([^)]*\)|arXiv[: ]\d+\.\d+)");
  return std::regex_replace(text, names, " ");
}

// The numbers of a text that must be traced, as written.
std::vector<std::string> measured_numbers(const std::string& text) {
  static const std::regex number(
      R"((^|[^\w.,:/-])[-+]?(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?![\d,.]*\d))"
      R"((\s?(?:%|(?:TFLOP/s|GB/s|GiB|GB|MiB|ms|us|s|points|tokens/s/GPU)(?![\w/])))?([\w/-]?))");
  static const std::regex version(
      R"((PyTorch|CUDA|section|sections|core|table|tables|version|Megatron-LM|TE)\s*$)");
  const std::string plain = without_names(text);
  std::vector<std::string> found;
  for (std::sregex_iterator at(plain.begin(), plain.end(), number), end; at != end; ++at) {
    const std::string digits = (*at)[2], unit = (*at)[3];
    const std::string before = plain.substr(0, static_cast<std::size_t>(at->position(2)));
    if (unit.empty() && (*at)[4].length() > 0) continue;  // "6.2B", "3.1-8B": a name
    if (unit.empty() && digits.find('.') == std::string::npos) continue;
    if (!std::regex_search(before, version)) found.push_back(digits);
  }
  return found;
}

// Whether a number that was printed rounds to this one.
bool is_printed(const std::string& digits, const std::set<double>& printed) {
  const std::size_t point = digits.find('.');
  const double places =
      point == std::string::npos ? 0 : static_cast<double>(digits.size() - point - 1);
  const double half = 0.5 * std::pow(10, -places) * (1 + 1e-9), value = value_of(digits);
  const auto at = printed.lower_bound(value - half);
  return at != printed.end() && *at <= value + half;
}

bool is_source_column(const std::string& heading) {
  static const std::regex theirs("published|measured|source", std::regex::icase);
  return std::regex_search(heading, theirs);
}

// Reads a page line by line.
struct Reader {
  Page page;
  std::string paragraph;
  Cells heading;                 // of the table that is being read
  bool lead_in_sourced = false;  // the last paragraph names a source
  bool fence = false;

  void end_paragraph() {
    if (paragraph.empty()) return;
    lead_in_sourced = names_source(paragraph);
    page.pieces.push_back({paragraph, lead_in_sourced});
    paragraph.clear();
  }

  void read_row(const std::string& line) {
    end_paragraph();
    const Cells row = cells(line);
    if (heading.empty()) {
      heading = row;
      return;
    }
    if (line.find_first_not_of("|-: ") == std::string::npos) return;
    if (heading[0] == "Evidence" && row.size() > 1 &&
        (row[0] == "The source measured" || row[0] == "The source states"))
      return add_numbers(without_names(row[1]), page.printed);
    Piece piece{"", names_source(line) || (lead_in_sourced && heading[0] != "Evidence")};
    for (std::size_t i = 0; i < row.size(); ++i)
      if (i >= heading.size() || !is_source_column(heading[i])) piece.text += row[i] + " | ";
    page.pieces.push_back(std::move(piece));
  }

  void read(const std::string& line) {
    if (line.starts_with("```")) {
      end_paragraph();
      heading.clear();
      fence = !fence;
    } else if (fence) {
      add_numbers(line, page.printed);
    } else if (line.starts_with("|")) {
      read_row(line);
    } else {
      heading.clear();
      if (line.empty() || line.starts_with("#") || line.starts_with("- ")) end_paragraph();
      if (!line.empty() && !line.starts_with("#")) paragraph += line + " ";
    }
  }
};

Page page_of(const fs::path& path) {
  std::ifstream in(path);
  Reader reader;
  for (std::string line; std::getline(in, line);) reader.read(line);
  reader.end_paragraph();
  return reader.page;
}

// The numbers that nothing on the page prints and no source is named for.
std::vector<std::string> untraced(const Page& page) {
  std::vector<std::string> found;
  for (const Piece& piece : page.pieces) {
    if (piece.sourced) continue;
    for (const std::string& digits : measured_numbers(piece.text))
      if (!is_printed(digits, page.printed))
        found.push_back(digits + " in: " + piece.text.substr(0, 100));
  }
  return found;
}

std::map<std::string, Page> pages() {
  std::map<std::string, Page> all;
  for (const auto& entry : fs::directory_iterator(root / "results"))
    if (entry.is_directory())
      all[entry.path().filename().string()] = page_of(entry.path() / "README.md");
  return all;
}

// Checks the table with this first heading: the numbers between a row's first and last cell are on
// the page of results/ that the row links. Returns the number of rows with such a link.
int traced_rows(const fs::path& document, const std::string& heading, const std::string& link) {
  const std::map<std::string, Page> all = pages();
  const std::regex target(link);
  std::ifstream in(document);
  int rows = 0;
  Cells headings;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("|")) headings.clear();
    if (!line.starts_with("|")) continue;
    const Cells row = cells(line);
    if (headings.empty()) headings = row;
    std::smatch at;
    if (headings.front() != heading || !std::regex_search(line, at, target)) continue;
    ++rows;
    const Page& page = all.at(at[1]);
    for (std::size_t i = 1; i + 1 < row.size(); ++i) {
      INFO(document.lexically_relative(root).generic_string() << ", " << at[1] << ": " << row[i]);
      for (const std::string& digits : measured_numbers(row[i]))
        CHECK(is_printed(digits, page.printed));
    }
  }
  return rows;
}

}  // namespace

TEST_CASE("tidy: numbers in the text of a page of results can be traced") {
  for (const auto& [folder, page] : pages()) {
    INFO("results/" << folder << "/README.md: give the number a command, name its source, or take "
                    << "it out");
    CHECK(untraced(page) == std::vector<std::string>{});
  }
}

TEST_CASE("tidy: numbers of README's table of errors are on the pages that it links") {
  CHECK(traced_rows(root / "README.md", "predicted run", R"(\]\(results/([\w-]+)\))") >= 4);
}

TEST_CASE("tidy: numbers of the table of systems are on the pages that it links") {
  CHECK(traced_rows(root / "results/README.md", "system", R"(\]\(([\w-]+)\))") >= 15);
}

TEST_CASE("tidy: which numbers must be traced") {
  using Numbers = std::vector<std::string>;
  CHECK(measured_numbers("a step of 1.25 s, 12 % less, 16 GPUs, 3 GiB") ==
        Numbers{"1.25", "12", "3"});
  CHECK(measured_numbers("gpt-6.2B on PyTorch 2.11, section 3.3, `x 4.5`, arXiv 2401.10241") ==
        Numbers{});
  CHECK(is_printed("4.6", {4.58}));
  CHECK_FALSE(is_printed("4.57", {4.58}));
  CHECK(is_printed("1,543", {1543.2}));
  CHECK(names_source("in `calibration/measured/memory.csv`"));
  CHECK_FALSE(names_source("in `no/such/file.csv`, as published"));
}
