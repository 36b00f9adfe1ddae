// Every registered component of a MoE layer keeps every contract of core/lab/contracts.h.
#include "core/lab/contracts.h"

#include <doctest/doctest.h>

using namespace moelab;

TEST_CASE("every component keeps every contract") {
  for (const ContractSubject& subject : contract_subjects()) {
    SUBCASE(str(subject.family, " ", subject.name).c_str()) {
      for (const Contract& contract : contracts()) {
        INFO(contract.name, ": ", contract.doc);
        CHECK(contract.broken(subject) == "");
      }
    }
  }
}
