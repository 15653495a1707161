// catalog.h — the things that have names: models, clusters, schedules, plans and others, with one
// line each. `list` prints them and `doc` explains one.
//
// Invariants
// (1) entries() reads names, not files. read_entry() reads the file of an entry.
// (2) Numbers and sources come from the files. Files that cannot be read say so in their summary.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sim::command {

struct CatalogEntry {
  std::string name, summary, source;
  std::string file;  // "topologies/dgx-h100.textproto"; "": part of the program
  std::int64_t parameters = 0, active_parameters = 0;  // of a model
};

struct Catalog {
  const char* name;    // "models"
  const char* one;     // "model"
  const char* folder;  // of its files, from the root; nullptr: part of the program
  std::vector<CatalogEntry> (*entries)();
  // Shows how to use the entry: "rehearse topo check {0}"; nullptr: nothing to show.
  const char* next;
};

std::span<const Catalog> catalogs();

// Fills in what the file of an entry says: its summary, and the parameters of a model.
void read_entry(const Catalog& catalog, CatalogEntry& entry);

// All that `doc` says about an entry of a file beyond its summary.
struct EntryFacts {
  std::string about;                 // comment at the top of the file
  std::vector<std::string> says;     // main numbers: "node: 8 GPUs, NVSwitch of 450 GB/s per GPU"
  std::vector<std::string> sources;  // of the numbers
};
EntryFacts facts_of(const Catalog& catalog, const CatalogEntry& entry);

}  // namespace sim::command
