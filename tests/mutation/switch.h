#pragma once

// Faults that mutate.py built into sim/, each behind a switch: included first in
// each source that has some.
namespace mutation {

extern int on;                  // the fault that is on, from $REHEARSE_MUTANT; 0: none
extern unsigned char* reached;  // a byte for each fault, or null; a map of $REHEARSE_REACHED

/// True where fault `n` is on; notes that it was asked for.
inline bool here(int n) noexcept {
  if (reached != nullptr) reached[n] = 1;
  return on == n;
}

}  // namespace mutation
