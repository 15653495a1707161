// syntax_test.cpp — the tree of a script, written out: words between bars, a list in { }, each
// other kind by its name, a here-document behind <<, the file behind >.
#include "sim/input/launch/shell/syntax.h"

#include <catch2/catch.hpp>
#include <string>

using sim::shell::Node;
using sim::shell::Raw;

namespace {

std::string joined(const std::vector<Raw>& words) {
  std::string all;
  for (std::size_t i = 0; i < words.size(); ++i)
    all += (i > 0 ? "|" : "") + std::string(words[i].text);
  return all;
}

std::string written(const Node& node);

std::string parts(const Node& node) {
  std::string all;
  for (std::size_t i = 0; i < node.parts.size(); ++i)
    all += (i > 0 ? " ; " : "") + written(node.parts[i]);
  return all;
}

std::string head(const Node& node) {
  switch (node.kind) {
    case Node::Kind::simple:
      return "";
    case Node::Kind::sequence:
      return node.name;  // "|" of a pipeline
    case Node::Kind::both:
      return "and";
    case Node::Kind::either:
      return "or";
    case Node::Kind::negated:
      return "not";
    case Node::Kind::branch:
      return "if";
    case Node::Kind::loop:
      return "for " + node.name + ":" + joined(node.words);
    case Node::Kind::repeat:
      return node.name;
    case Node::Kind::choice:
      return "case " + joined(node.words);
    case Node::Kind::function:
      return node.name + "()";
    case Node::Kind::arithmetic:
      return "((" + joined(node.words) + "))";
    case Node::Kind::conditional:
      return "[[" + joined(node.words) + "]]";
  }
  return "?";
}

std::string written(const Node& node) {
  std::string all;
  for (const sim::shell::Assignment& one : node.assignments) {
    all += one.name;
    if (!one.index.text.empty()) all += "[" + std::string(one.index.text) + "]";
    all += (one.append ? "+=" : "=") +
           (one.array ? "(" + joined(one.words) + ")" : joined(one.words)) + " ";
  }
  if (node.kind == Node::Kind::simple) {
    all += joined(node.words);
  } else {
    all += head(node);
    if (node.kind == Node::Kind::choice) {
      all += "{";
      for (std::size_t i = 0; i < node.parts.size(); ++i)
        all += (i > 0 ? " ; " : "") + joined(node.parts[i].words) + ") " + parts(node.parts[i]);
      all += "}";
    } else if (node.kind != Node::Kind::arithmetic && node.kind != Node::Kind::conditional) {
      all += "{" + parts(node) + "}";
    }
  }
  for (const sim::shell::HereDocument& one : node.documents)
    all += std::string(one.quoted ? " <<'" : " <<[") + std::string(one.body.text) +
           (one.quoted ? "'" : "]");
  if (!node.output.text.empty()) all += " >" + std::string(node.output.text);
  return all;
}

// The tree of a whole script, without the list around it.
std::string tree(const std::string& text) {
  bool truncated = false;
  const std::string all = parts(sim::shell::parse(text, truncated));
  return all + (truncated ? " ..." : "");
}

}  // namespace

TEST_CASE("shell: each kind of command has its tree") {
  struct Case {
    const char* text;
    const char* tree;
  };
  for (const Case& one : std::vector<Case>{
           {"a b; c", "a|b ; c"},
           {"a && b || c", "or{and{a ; b} ; c}"},
           {"cat <<E\n\tE\nE\nb", "cat <<[\tE\n] ; b"},
           {"cat <<-E\n\t\tx\n\t\tE\nb", "cat <<[\t\tx\n] ; b"},
           {"cat <<E > f 2>&1\nx\nE", "cat <<[x\n] >f"},
           {"a 1> out >&2 b", "a|b >out"},
           {"a >& both", "a >both"},
           {"a 2>>err", "a"},
           {"a <<'", "a <<[]"},
           {"a <<''\nx\n\nb", "a <<'x\n' ; b"},
           {"X[1\n]=2", "X[1 ; ]=2"},
           {"1X=2", "1X=2"},
           {"A=(1\n", "A=(1) "},
           {"X=(1 ) Y", "X=(1) Y"},
           {"X=(>a b)", "X=(a|b) "},
           {"f() {", "f(){{}}"},
           {"if a; then b", "if{{a} ; {b}}"},
           {"a >", "a"},
           {"a '", "a|'"},
           {"\r", ""},
           {"for", "for :{{}}"},
           {"case x in a", "case x{a) }"},
           {"[[ a\na &&\n b", "[[a|a|&&|b]]"},
           {"a && ; b", "and{a ; b}"},
           {"a | b | c", "|{a ; b ; c}"},
           {"a |& b", "|{a ; b}"},
           {"a || b | c", "or{a ; |{b ; c}}"},
           {"a |\n # why\n b", "|{a ; b}"},
           {"! a b", "not{a|b}"},
           {"! ! a", "not{not{a}}"},
           {"if a; then b; fi; c", "if{{a} ; {b}} ; c"},
           {"if a; then b; elif c; then d; else e; fi; f", "if{{a} ; {b} ; {c} ; {d} ; {e}} ; f"},
           {"if a\nthen b\nelse c\nfi\nd", "if{{a} ; {b} ; {c}} ; d"},
           {"for i in 1 2 3; do a $i; done; b", "for i:1|2|3{{a|$i}} ; b"},
           {"for i in 1 \\\n 2; do a; done; b", "for i:1|2{{a}} ; b"},
           {"for i; do a; done; b", "for i:{{a}} ; b"},
           {"for i in ; do a; done; b", "for i:{{a}} ; b"},
           {"for ((i=0; i<3; i++)); do a; done; b", "for :{{a}} ; b"},
           {"select x in p q; do a; done; b", "for x:p|q{{a}} ; b"},
           {"while a; do b; done; c", "while{{a} ; {b}} ; c"},
           {"until a; do b; done; c", "until{{a} ; {b}} ; c"},
           {"case $x in a) b;; (c|d) e; f;; *) g; esac; h",
            "case $x{a) b ; c|d) e ; f ; *) g} ; h"},
           {"case $x in\n a)\n  b\n  ;;\nesac\nh", "case $x{a) b} ; h"},
           {"case x in esac; h", "case x{} ; h"},
           {"[[ a == b && ( c < d || e > f ) ]] && g", "and{[[a|==|b|&&|(|c|<|d||||e|>|f|)]] ; g}"},
           {"[[ a ==\n b ]]; c", "[[a|==|b]] ; c"},
           {"(( a + b )); c", "(( a + b )) ; c"},
           {"((a)) && b", "and{((a)) ; b}"},
           {"(()); c", "(()) ; c"},
           {"{ a; b; }; c", "{a ; b} ; c"},
           {"(a; b) > out; c", "{a ; b} >out ; c"},
           {"f() { a; }; f x", "f(){{a}} ; f|x"},
           {"function f { a; }; f", "f(){{a}} ; f"},
           {"function f() ( a ); f", "f(){{a}} ; f"},
           {"f-g () { a; }; b", "f-g(){{a}} ; b"},
           {"f() if a; then b; fi; c", "f(){if{{a} ; {b}}} ; c"},
           {"X=1 Y=2 a b=3", "X=1 Y=2 a|b=3"},
           {"X=1; X+=2; X[1]=3; X[2]+=4", "X=1  ; X+=2  ; X[1]=3  ; X[2]+=4 "},
           {"X[1=2 a", "X[1=2|a"},
           {"A=(1 2); A+=(3)", "A=(1|2)  ; A+=(3) "},
           {"A=(1 # one\n 'x y' \n 2) a", "A=(1|'x y'|2) a"},
           {"A=( ); B=()", "A=()  ; B=() "},
           {"export X=1 Y=2; declare -a A=(1 2); env X=1 a",
            "X=1 Y=2 export ; A=(1|2) declare|-a ; X=1 env|a"},
           {"a X=1", "a|X=1"},
           {"a > out b", "a|b >out"},
           {"a >> out 2>&1", "a >out"},
           {"a >| out", "a >out"},
           {"a &> out; b", "a >out ; b"},
           {"a 2> err > out", "a >out"},
           {"a > out 2> err", "a >out"},
           {"a < in > out", "a >out"},
           {"a >out<in b", "a|b >out"},
           {"a <<< \"x\" b", "a|b"},
           {"a > >(tee log) b", "a|b"},
           {"a <(b c) d", "a|d"},
           {"cat <<E > f\nx $y\nE\nb", "cat <<[x $y\n] >f ; b"},
           {"cat <<'E'\nx\nE\nb", "cat <<'x\n' ; b"},
           {"cat <<\"E\"\nx\nE\nb", "cat <<'x\n' ; b"},
           {"cat <<-E\n\tx\n\tE\nb", "cat <<[\tx\n] ; b"},
           {"cat << E; b\nx\nE\nc", "cat <<[x\n] ; b ; c"},
           {"cat <<A <<B\n1\nA\n2\nB\nc", "cat <<[1\n] <<[2\n] ; c"},
           {"cat <<E\nx", "cat <<[x]"},
           {"cat <<E\nE\nb", "cat <<[] ; b"},
           {"cat <<E", "cat <<[]"},
           {"a <PATH> b", "a|<PATH>|b"},
           {"a <PATH TO DATA> b", "a|<PATH TO DATA>|b"},
           {"a \"<x>\" <y>/z <q>p r>", "a|\"<x>\"|r"},
           {"a < b> c", "a >c"},
           {"a <b > c", "a >c"},
           {"a <1> b", "a >b"},
           {"a <x>", "a"},
           {"a <xy>", "a|<xy>"},
           {"a $(b; c) `d e` ${f:-g h} $((1 + 2)) \"i j\"'k l'\\ m",
            "a|$(b; c)|`d e`|${f:-g h}|$((1 + 2))|\"i j\"'k l'\\ m"},
           {"a # b\nc#d", "a ; c#d"},
           {"a \\\n b", "a|b"},
           {"a \\\r\n b", "a|b"},
           {"a & b", "a ; b"},
           {"a ;; b", "a ; b"},
           {"fi; a", "a"},
           {") a", "a"},
           {"then a; done", "a"},
           {"}; a", "a"},
           {"iffy; fort; {a; a}", "iffy ; fort ; {a ; a}"},
           {"if[ ; b", "if[ ; b"},
           {"!a", "!a"},
           {"time a", "time|a"},
       }) {
    INFO(one.text);
    CHECK(tree(one.text) == one.tree);
  }
}

TEST_CASE("shell: a tree is at most 64 lists deep") {
  const auto nested = [](int deep) {
    std::string text;
    for (int i = 0; i < deep; ++i) text += "{ ";
    text += "a";
    for (int i = 0; i < deep; ++i) text += "; }";
    return tree(text);
  };
  CHECK(nested(63) == std::string(63, '{') + "a" + std::string(63, '}'));
  CHECK(nested(64) == std::string(64, '{') + std::string(64, '}') + " ...");
  const auto negated = [](int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += "! ";
    return tree(text + "a");
  };
  CHECK(negated(62).find("not{a}") != std::string::npos);
  CHECK(negated(63).find("not{a}") == std::string::npos);
}

TEST_CASE("shell: a command knows where it stands") {
  bool truncated = false;
  const Node all = sim::shell::parse("a && b\nif c; then d; fi | e\n", truncated);
  REQUIRE(all.parts.size() == 2);
  CHECK(all.parts[0].at == 0);
  CHECK(all.parts[0].parts[1].at == 5);
  CHECK(all.parts[1].at == 7);
  CHECK(all.parts[1].parts[0].at == 7);
  CHECK(all.parts[1].parts[0].parts[0].at == 9);
  CHECK(all.parts[1].parts[1].at == 26);
  CHECK(all.parts[1].parts[1].words[0].at == 26);
}

TEST_CASE("shell: quotes and brackets end where they are closed, or with the text") {
  struct Case {
    const char* text;
    std::size_t end;
  };
  for (const Case& one : std::vector<Case>{{"'a'b", 3},
                                           {"'a\\'b", 4},
                                           {"'ab", 3},
                                           {"`a\\`b`c", 6},
                                           {"`ab", 3},
                                           {"\\ab", 2},
                                           {"\\", 1},
                                           {"\"a\\\"b\"c", 6},
                                           {"\"$(a \"b\")\"c", 10},
                                           {"\"${a:-\"b\"}\"c", 11},
                                           {"\"`\"`\"c", 5},
                                           {"\"$a\"c", 4},
                                           {"\"a$\"c", 4},
                                           {"\"ab", 3},
                                           {"$(a ')' \")\" \\) b)c", 17},
                                           {"$((1))c", 6},
                                           {"$(a", 3},
                                           {"$('a", 4},
                                           {"${a}c", 4},
                                           {"${a{b}c}d", 8},
                                           {"$'a'c", 4},
                                           {"$a", 1},
                                           {"$", 1},
                                           {"ab", 1}}) {
    INFO(one.text);
    CHECK(sim::shell::skip_quoted(one.text, 0) == one.end);
  }
  CHECK(sim::shell::skip_brackets("((a) b) c", 0) == 7);
  // Nesting of quotes in brackets ends at a limit.
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "\"$(";
  CHECK(sim::shell::skip_quoted(deep, 0) == deep.size());
}

TEST_CASE("shell: names are of letters, digits behind the first, and lines") {
  for (const char c : {'a', 'z', 'A', 'Z', '_'}) {
    CHECK(sim::shell::is_name_start(c));
    CHECK(sim::shell::is_name(c));
  }
  for (const char c : {'0', '9'}) {
    CHECK_FALSE(sim::shell::is_name_start(c));
    CHECK(sim::shell::is_name(c));
  }
  for (const char c : {'@', '[', '`', '{', '/', ':', '-', ' '}) CHECK_FALSE(sim::shell::is_name(c));
  for (const char c : {' ', '\t', '\r'}) CHECK(sim::shell::is_blank(c));
  CHECK_FALSE(sim::shell::is_blank('\n'));
}
