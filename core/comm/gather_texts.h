// Text from every rank to every rank: names, reasons, fingerprints. Small, and rarely.
#pragma once
#include <string>
#include <vector>

#include "core/backend/backend.h"
#include "core/comm/world.h"

namespace moelab {

// The ranks' texts in rank order. Collective over `group`; null: the own text alone.
std::vector<std::string> gather_texts(const Backend& backend, Group* group, const std::string& own);

}  // namespace moelab
