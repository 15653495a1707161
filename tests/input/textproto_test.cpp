#include "sim/input/text/textproto.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>

#include <catch2/catch.hpp>

#include "sim/input/schema/cluster.pb.h"
#include "sim/input/schema/plan.pb.h"
#include "support.h"

using rehearse::v1::Cluster;
using rehearse::v1::Plan;
using sim::input::Source;
using support::contains;

namespace {

template <class M>
std::string read(const std::string& text) {
  M message;
  Source source("x");
  return support::text(source.read(text, message, {}, false));
}

}  // namespace

TEST_CASE("input: what protobuf's own parser accepts gives the same message here") {
  // All notations of the text format for the same values.
  const char* texts[] = {
      "",
      "# only a comment",
      "name: \"a\" nodes: 3",
      "name: 'a', nodes: 3; source: [\"x\", \"y\"] source: \"z\"",
      "name: \"a\" \"b\"\n  'c'",
      "gpu { name: \"\\x41\\n\\101\" sms: 0x6c }",
      "gpu: < name: \"a\" >",
      "gpu { } node: { nic_of_gpu: [0, 1, 2] nic_of_gpu: 3 interconnect: mesh }",
      "node { nic_of_gpu: [] }",
      "fabric { oversubscription: 2 } # end",
      "fabric { oversubscription: 1.5e0 }",
      "fabric { oversubscription: 1.5f }",
      "fabric { oversubscription: -1 }",
      "nodes: -5",
  };
  for (const char* text : texts) {
    CAPTURE(text);
    Cluster theirs, ours;
    REQUIRE(google::protobuf::TextFormat::ParseFromString(text, &theirs));
    Source source("x");
    CHECK(support::text(source.read(text, ours, {}, false)).empty());
    CHECK(google::protobuf::util::MessageDifferencer::Equals(theirs, ours));
  }
}

TEST_CASE("input: every shipped cluster reads as protobuf's own parser reads it") {
  for (const auto& entry :
       std::filesystem::directory_iterator(support::in_repository("topologies"))) {
    if (entry.path().extension() != ".textproto") continue;
    CAPTURE(entry.path().string());
    const std::string text = support::read(entry.path().string());
    Cluster theirs, ours;
    REQUIRE(google::protobuf::TextFormat::ParseFromString(text, &theirs));
    Source source("x");
    CHECK(source.read(text, ours).empty());
    CHECK(google::protobuf::util::MessageDifferencer::Equals(theirs, ours));
  }
}

TEST_CASE("input: mistakes in the text are reported and reading goes on") {
  CHECK(contains(read<Cluster>("nodes 3\nnaem: \"a\""), "x:1:7: expected ':' after 'nodes'"));
  CHECK(contains(read<Cluster>("nodes 3\nnaem: \"a\""), "x:2:1: 'Cluster' has no field 'naem'"));
  CHECK(contains(read<Cluster>("gpu {\n sms: 3"), "the block 'gpu' opened at x:1:5 is not closed"));
  CHECK(contains(read<Cluster>("name: \"a\nnodes: 3"), "x:1:9"));  // string not closed
  CHECK(contains(read<Cluster>("}"), "expected the name of a field"));
  CHECK(contains(read<Cluster>("nodes: [1, 2]"), "takes one value, not a list"));
  CHECK(contains(read<Plan>("sequence_parallel: maybe"), "is true or false, got 'maybe'"));
  CHECK(contains(read<Plan>("precision: \"bf16\""), "without quotation marks"));
  CHECK(contains(read<Plan>("precision: precision_unset"), "is one of bf16, fp16, fp32"));
  CHECK(contains(read<Plan>("model: llama"), "'model' is a text; write \"llama\""));
  CHECK(contains(read<Cluster>("nodes: 010"), "x:1:8: 'nodes' has leading zeros"));
  CHECK(contains(read<Cluster>("nodes: 1_024"),
                 "x:1:8: 'nodes' is a whole number, got '1_024'; write 1024"));
  CHECK(contains(read<Cluster>("name: \u201cd\u201d"),
                 "x:1:7: a character that is no ASCII stands outside of quotation marks"));
  CHECK(contains(read<Cluster>("name: \"\\xff\""), "not valid UTF-8"));
  CHECK(contains(read<Cluster>("name: \"a\"\n# \xff"), "x:2: the file is not UTF-8"));
}

TEST_CASE("input: unknown blocks and lists are passed over as a whole") {
  const std::string all = read<Cluster>("foo { bar { name: \"x\" } baz: [1, 2] }\nnodes: x");
  CHECK(contains(all, "no field 'foo'"));
  CHECK(contains(all, "x:2:8"));
  CHECK(std::count(all.begin(), all.end(), '\n') == 2);
}

TEST_CASE("input: hostile texts end quickly") {
  // A million open blocks of a known field and of unknown ones, and a million errors.
  std::string open, unknown, wrong;
  for (int i = 0; i < 1'000'000; ++i) {
    open += "gpu {";
    unknown += "x {";
    wrong += "x: 1\n";
  }
  CHECK_FALSE(read<Cluster>(open).empty());
  CHECK_FALSE(read<Cluster>(unknown).empty());
  const std::string all = read<Cluster>(wrong);
  CHECK(std::count(all.begin(), all.end(), '\n') == 101);  // a hundred and "more follow"
  CHECK(contains(all, "more problems follow"));
  CHECK_FALSE(read<Cluster>(std::string(1'000'000, '\0')).empty());
}

TEST_CASE("input: JSON of the same schema is read too") {
  support::Scratch scratch;
  Plan plan;
  Source good(scratch.write("p.json", R"({"tp": 4, "precision": "fp16", "globalBatch": 8,
                                          "sequence": 4096, "cluster": "x"})"));
  CHECK(sim::input::load(good, plan).empty());
  CHECK(plan.tp() == 4);
  CHECK(plan.precision() == Plan::fp16);
  Source bad(scratch.write("q.json", "{\"tpp\": 4}"));
  CHECK(contains(support::text(sim::input::load(bad, plan)), "tpp"));
  Source cut(scratch.write("r.json", "{\"tp\": "));
  CHECK_FALSE(sim::input::load(cut, plan).empty());
}
