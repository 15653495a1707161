#include <catch2/catch.hpp>
#include <string>

#include "sim/input/launch/shell/script.h"

using sim::shell::follow;
using sim::shell::Script;

namespace {

// The commands, one per line.
std::string commands(const std::string& text, const std::set<std::size_t>& flipped = {}) {
  std::string all;
  for (const sim::shell::Command& command : follow(text, flipped).commands) {
    for (std::size_t i = 0; i < command.words.size(); ++i)
      all += (i > 0 ? "|" : "") + command.words[i].text;
    all += "\n";
  }
  return all;
}

}  // namespace

TEST_CASE("shell: words split at blanks, and quotes keep them together") {
  CHECK(commands("a b\tc\n") == "a|b|c\n");
  CHECK(commands("a 'b  c' \"d e\" f\\ g") == "a|b  c|d e|f g\n");
  CHECK(commands("a \\\n  b # a comment\nc") == "a|b\nc\n");
  CHECK(commands("a \\\r\n b") == "a|b\n");
  CHECK(commands("a; b && c | d &") == "a\nb\nc\nd\n");
  CHECK(commands("a '' b") == "a||b\n");
  CHECK(commands("a 2>&1 > out < in b") == "a|b\n");
  CHECK(commands("a b <in\n\nc") == "a|b\nc\n");
}

TEST_CASE("shell: variables are replaced, and split where they are not quoted") {
  CHECK(commands("X='1 2'; a $X \"$X\" ${X}3") == "a|1|2|1 2|1|23\n");
  CHECK(commands("export X=1 Y=2; a $X$Y") == "a|12\n");
  CHECK(commands("X=1; X+=2; a $X") == "a|12\n");
  CHECK(commands("A='--p 1'; A=\"$A --q 2\"; run $A") == "run|--p|1|--q|2\n");
}

TEST_CASE("shell: a parameter has a default, loses an end, or changes a part") {
  CHECK(commands("a ${X:-1} ${X-2}") == "a|1|2\n");
  CHECK(commands("X=; a ${X:-1} \"${X-2}\"") == "a|1|\n");
  CHECK(commands("a ${X:=5} $X") == "a|5|5\n");
  CHECK(commands("X=1; a ${X:+yes} ${Y:+no}") == "a|yes\n");
  CHECK(commands("a ${1:-8} ${2:-$((4*4))}") == "a|8|16\n");
  CHECK(commands("X=model-7b.tar.gz; a ${X%.*} ${X%%.*} ${X#*-} ${X##*.}") ==
        "a|model-7b.tar|model-7b|7b.tar.gz|gz\n");
  CHECK(commands("X=a-b-c; a ${X/-/_} ${X//-/_} ${#X} ${X:2:1} ${X^^}") ==
        "a|a_b-c|a_b_c|5|b|A-B-C\n");
  // The first and last letters of the alphabet and the characters next to them.
  CHECK(commands("X='@AZ[`az{'; a \"${X^^}\" \"${X,,}\"") == "a|@AZ[`AZ{|@az[`az{\n");
}

TEST_CASE("shell: arithmetic is that of whole numbers") {
  CHECK(commands("a $((1+2*3)) $(( (1+2)*3 )) $((7/2)) $((7%4)) $((2**10)) $((1<<4))") ==
        "a|7|9|3|3|1024|16\n");
  CHECK(commands("N=4; G=8; a $((N*G)) $(($N * ${G})) $((N>3 ? 1 : 2))") == "a|32|32|1\n");
  CHECK(commands("a $(expr 3 \\* 4) $(echo 5) `echo 6` $(echo \"2*3\" | bc)") == "a|12|5|6|6\n");
  // Division by zero is unknown. Arithmetic wraps around at 64 bits, as in the shell.
  const Script script = follow("a $((1/0)) $((9223372036854775807+1))");
  CHECK_FALSE(script.commands.at(0).words.at(1).unknowns.empty());
  CHECK(script.commands.at(0).words.at(2).text == "-9223372036854775808");
}

TEST_CASE("shell: arrays have elements that stay words") {
  CHECK(commands("A=(--p 1\n  --q 'x y' # why\n)\nrun \"${A[@]}\" ${A[1]} ${#A[@]}") ==
        "run|--p|1|--q|x y|1|4\n");
  CHECK(commands("A=(1); A+=(2 3); run ${A[@]} ${A[*]}") == "run|1|2|3|1|2|3\n");
}

TEST_CASE(
    "shell: what only a run could say is unknown, and every word that depends on it says so") {
  const Script script = follow("N=$(nproc); a --x $N --y $((N*2)) $Z \"$1\"");
  const auto& words = script.commands.at(0).words;
  REQUIRE(words.size() == 7);
  CHECK(words[2].unknowns == std::vector<std::string>{"$(nproc)"});
  CHECK(words[4].unknowns == std::vector<std::string>{"$(nproc)"});
  CHECK(words[5].text == "$Z");
  CHECK(words[6].unknowns == std::vector<std::string>{"$1"});
}

TEST_CASE("shell: known conditions are decided, unknown ones are listed") {
  CHECK(commands("N=4; if [ $N -gt 2 ]; then a; elif true; then b; else c; fi") == "a\n");
  CHECK(commands("N=1; if [[ $N -gt 2 ]]; then a; else c; fi") == "c\n");
  CHECK(commands("if [[ 7b == 7* && 1 -lt 2 ]]; then a; fi") == "a\n");
  CHECK(commands("if (( 2 * 2 == 4 )); then a; fi") == "a\n");
  CHECK(commands("case llama in gpt|t5) a;; ll*) b;; *) c;; esac") == "b\n");
  CHECK(commands("[ x = x ] && a; [ x = y ] && b; [ x = y ] || c") == "a\nc\n");
  CHECK(follow("if [ 1 -eq 1 ]; then a; fi").undecided.empty());

  const std::string text = "if [ -f file ]; then a; else b; fi";
  const Script script = follow(text);
  REQUIRE(script.undecided.size() == 1);
  CHECK_FALSE(script.undecided[0].taken);
  CHECK(commands(text) == "b\n");
  CHECK(commands(text, {script.undecided[0].at}) == "a\n");
}

TEST_CASE("shell: loops and functions are followed") {
  CHECK(commands("for i in 1 2 3; do A=\"$A$i\"; done; a \"${A}\"") == "a|$A123\n");
  CHECK(commands("f() { run $1 $2; }\nf x y\nf z") == "run|x|y\nrun|z|$2\n");
  CHECK(commands("while [[ $# -gt 0 ]]; do shift; done; a") == "a\n");
  CHECK(commands("while true; do a; done") == "a\n");
}

TEST_CASE("shell: the text of bash -c and eval is followed too") {
  CHECK(commands("X='run 1'; srun bash -c '$X $Y'") == "srun|bash|-c|$X $Y\nrun|1|$Y\n");
  CHECK(commands("X='run 1'; eval $X 2") == "run|1|2\n");
}

TEST_CASE("shell: here-documents are files, and what follows them is followed") {
  const Script script = follow("N=2\ncat <<EOT > conf.json\n{\"stage\": $N}\nEOT\nrun $N\n");
  REQUIRE(script.files.count("conf.json") == 1);
  CHECK(script.files.at("conf.json") == "{\"stage\": 2}\n");
  CHECK(commands("cat <<'E'\n$N (\nE\nrun") == "cat\nrun\n");
  CHECK(commands("X=$(cat <<E\n1 2\nE\n)\nrun $X") == "run|1|2\n");
}

TEST_CASE("shell: words know where they are written") {
  for (const std::string text : {"A=\" \\\n  --x 1\"\nrun $A", "A='\n  --x 1'\nrun $A"}) {
    const auto script = follow(text);
    const auto place = sim::shell::place(text, script.commands.at(0).words.at(1).at);
    CHECK(place.line == 2);
    CHECK(place.column == 3);
  }
}

TEST_CASE("shell: files that a script reads again and again end with the bytes that it may make") {
  const auto follow_with = [](const std::string& script, std::string file, std::size_t size) {
    file.resize(size, '\n');
    return follow(script, {}, [&](const sim::shell::Word&) { return std::optional(file); });
  };
  // The limit is 256 KiB plus 256 for each byte of the script.
  const std::string thrice = "\n. f\n. f\n. f\n";
  const std::size_t most = (256 << 10) + 256 * thrice.size();
  const Script all = follow_with(thrice, "a\n", most / 3 - 100);
  CHECK(all.commands.size() == 3);
  CHECK_FALSE(all.limit);
  const Script some = follow_with(thrice, "a\n", most / 3 + 1);
  CHECK(some.commands.size() == 2);
  CHECK(some.limit);
  // The directives of a submitted job count.
  const std::string job = "sbatch job.sh\n";
  const std::size_t once = (256 << 10) + 256 * job.size();
  CHECK(follow_with(job, "#SBATCH --nodes=4\na\n", once - 100).directives.size() == 1);
  CHECK(follow_with(job, "#SBATCH --nodes=4\na\n", once).directives.empty());
  // A file larger than the limit of scripts is named instead of read.
  CHECK(follow_with(". f\n", "a\n", sim::shell::max_text + 1).sourced.size() == 1);
  CHECK(follow_with(". f\n", "a\n", sim::shell::max_text).sourced.empty());
}

TEST_CASE("shell: texts that are no scripts end quickly") {
  const std::string many(200'000, '(');
  for (const std::string& text :
       {std::string("if"), std::string("for"), std::string("\"${"), std::string("$(("),
        std::string("a=("), std::string("case x in"), many, std::string(200'000, '{') + "a",
        std::string("cat <<E"), std::string("f() { f; f; }; f"),
        std::string("for a in b>c; do f; done"), std::string("for a in (b; do f; done"),
        std::string("X=$X$X; eval eval $X"), std::string("while :; do eval 'a'; done"),
        std::string("\x01"
                    "9\x02 ${!x} ${#} $@"),
        std::string("for a in 1 2 3 4 5 6 7 8 9; do for b in 1 2 3 4 5 6 7 8 9; do for c in 1 2 3 "
                    "4 5 6 7 8 9; do for d in 1 2 3 4 5 6 7 8 9; do for e in 1 2 3 4 5 6 7 8 9; do "
                    "X=$X$X$a; done; done; done; done; done")})
    CHECK_NOTHROW(follow(text));
}
