// wiring.cpp — trees of switches classified as fabrics.
#include "sim/cluster/topology/wiring.h"

#include <catch2/catch.hpp>

using namespace sim::topology;

namespace {

// `hosts` on `leaves` leaves in turn, `rails` leaves per host, `spines` above all of them. Cables
// have 25 GB/s, with `up` cables from each leaf to each spine.
Wiring tree(int hosts, int leaves, int rails, int spines, int up) {
  Wiring wiring;
  for (int i = 0; i < leaves + spines; ++i) wiring.switches.push_back("s" + std::to_string(i));
  for (int host = 0; host < hosts; ++host) {
    wiring.hosts.push_back("n" + std::to_string(host));
    const int group = host % (leaves / rails);
    for (int rail = 0; rail < rails; ++rail)
      wiring.cables.push_back({group * rails + rail, leaves + spines + host, 25e9});
  }
  for (int leaf = 0; leaf < leaves; ++leaf)
    for (int spine = 0; spine < spines; ++spine)
      for (int cable = 0; cable < up; ++cable)
        wiring.cables.push_back({leaf, leaves + spine, 25e9});
  return wiring;
}

}  // namespace

TEST_CASE("wiring: a tree of switches is told by its leaves and what stands above them") {
  const WiringShape fat = shape_of(tree(16, 4, 1, 2, 1));
  CHECK(fat.fabric.kind == FabricKind::fat_tree);
  CHECK(fat.nodes == 16);
  CHECK(fat.fabric.nodes_per_leaf == 4);
  CHECK(fat.fabric.oversubscription == 2);  // four cables down, two up
  CHECK(fat.seen == "16 hosts on 4 leaves of at most 4 under 2 spines");

  CHECK(shape_of(tree(8, 1, 1, 0, 0)).fabric.kind == FabricKind::single_switch);
  CHECK(shape_of(tree(8, 4, 4, 0, 0)).fabric.kind == FabricKind::rail_only);
  CHECK(shape_of(tree(8, 2, 2, 0, 0)).fabric.kind == FabricKind::rail_only);
  CHECK(shape_of(tree(8, 2, 1, 0, 0)).fabric.kind == FabricKind::fat_tree);
  const WiringShape rails = shape_of(tree(8, 8, 4, 4, 1));
  CHECK(rails.fabric.kind == FabricKind::rail_optimised);
  CHECK(rails.fabric.nodes_per_leaf == 4);
  CHECK(rails.fabric.oversubscription == 1);
}

TEST_CASE("wiring: where cables up or down have no rates, leaves are not over-subscribed") {
  for (const bool up : {false, true})
    for (const bool down : {false, true}) {
      Wiring wiring = tree(16, 4, 1, 2, 1);
      for (Wiring::Cable& cable : wiring.cables)
        if (cable.b < 6 ? !up : !down) cable.bytes_per_second = 0;
      const WiringShape shape = shape_of(wiring);
      INFO(up << down << ": " << shape.seen);
      CHECK(shape.fabric.oversubscription == (up && down ? 2 : 1));
      CHECK((shape.seen.find("rates") == std::string::npos) == (up && down));
    }
}

TEST_CASE("wiring: a level above the spines makes pods of the leaves that spines join") {
  // Two pods of two leaves and one spine each, a core above both spines.
  Wiring wiring;
  wiring.switches = {"l0", "l1", "l2", "l3", "s0", "s1", "core"};
  for (int host = 0; host < 8; ++host) {
    wiring.hosts.push_back("n" + std::to_string(host));
    wiring.cables.push_back({host / 2, 7 + host, 0});
  }
  for (int leaf = 0; leaf < 4; ++leaf) wiring.cables.push_back({leaf, 4 + leaf / 2, 0});
  wiring.cables.push_back({4, 6, 0});
  wiring.cables.push_back({5, 6, 0});
  const WiringShape shape = shape_of(wiring);
  CHECK(shape.fabric.kind == FabricKind::three_level);
  CHECK(shape.fabric.leaves_per_pod == 2);
  CHECK(shape.fabric.nodes_per_leaf == 2);
  CHECK(shape.fabric.oversubscription == 1);
  CHECK(shape.seen.find("not said") != std::string::npos);
}
