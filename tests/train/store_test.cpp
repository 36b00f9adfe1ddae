// Checkpoints: any layout reads any other's, damage is found, the one before it is used, a full
// disk leaves the previous one whole.
#include "core/checkpoint/store.h"

#include <sys/resource.h>

#include <csignal>

#include <doctest/doctest.h>

#include <filesystem>
#include <sstream>

#include "core/checkpoint/file_io.h"
#include "core/checkpoint/safetensors.h"
#include "registry/error.h"
#include "tests/support/temporary_folder.h"

using namespace moelab;
using moelab::testing::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

constexpr Index kExperts = 4;

// This rank's share of a model whose every element is a function of its name.
Shares shares_of(const Backend& backend, Index ranks, Index rank, double value) {
  const auto piece = [&](const std::string& name, double base) {
    const Tensor t = backend.empty(DType::f64, {2, 3});
    for (Index i = 0; i < 6; ++i) t.data<double>()[i] = base + static_cast<double>(i);
    return Piece{name, t};
  };
  Shares shares;
  shares.whole = {piece("embed", value), piece("norm", value + 100)};
  const Index own = kExperts / ranks;
  for (const char* part : {"up", "down"})
    for (Index e = rank * own; e < (rank + 1) * own; ++e)
      shares.sharded.push_back(
          piece(str("experts.", e, ".", part), value + 1000.0 * static_cast<double>(e + 1)));
  return shares;
}

void save(const CheckpointStore& store, Index ranks, Index step, double value) {
  const auto world =
      Component<World>("inproc").make({static_cast<int>(ranks), std::chrono::seconds(60)});
  world->run([&](Rank& rank) {
    const auto backend = Backend::cpu();
    const auto everyone = rank.everyone();
    CheckpointMeta meta;
    meta.step = step;
    meta.recipe = "[train]\nsteps = 3\n";
    meta.data_fingerprint = ~std::uint64_t{0};
    meta.loss = 0.1;
    const Shares shares = shares_of(*backend, ranks, rank.rank(), value);
    store.save(meta, {{kModelFile, shares}, {kOptimizerFile, shares}, {kStateFile, {}}}, *backend,
               *everyone, everyone.get());
  });
}

std::string newest(const CheckpointStore& store, std::string* warnings = nullptr) {
  std::ostringstream log;
  const auto found = store.newest_whole(log);
  if (warnings) *warnings = log.str();
  return found ? fs::path(found->path).filename().string() : "";
}

void flip_a_byte(const std::string& path) {
  std::string bytes = read_text(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

TEST_CASE("checkpoints: every layout writes the same tensors, and reads every other's") {
  const TemporaryFolder folder;
  for (const Index wrote : {1, 2, 4}) {
    const CheckpointStore store(folder.path(str("ep", wrote)), 2);
    save(store, wrote, 7, 0.5);
    std::ostringstream log;
    const auto found = store.newest_whole(log);
    REQUIRE(found.has_value());
    CHECK(found->meta.step == 7);
    CHECK(found->meta.loss == 0.1);
    CHECK(found->meta.data_fingerprint == ~std::uint64_t{0});
    CHECK(found->meta.recipe == "[train]\nsteps = 3\n");
    CHECK(SafetensorsReader(found->file(kModelFile)).entries().size() == 2 + 2 * kExperts);
    const auto backend = Backend::cpu();
    for (const Index reads : {1, 2, 4})
      for (Index rank = 0; rank < reads; ++rank) {
        const Shares expected = shares_of(*backend, reads, rank, 0.5);
        const Shares got = shares_of(*backend, reads, rank, -1);
        for (const auto part : {&Shares::whole, &Shares::sharded}) {
          load_pieces(found->file(kModelFile), got.*part);
          for (std::size_t i = 0; i < (got.*part).size(); ++i)
            CHECK(std::ranges::equal((got.*part)[i].value.span<double>(),
                                     (expected.*part)[i].value.span<double>()));
        }
      }
  }
}

TEST_CASE("checkpoints: only the newest are kept; those of a discarded future go") {
  const TemporaryFolder folder;
  const CheckpointStore store(folder.path(), 2);
  for (const Index step : {8, 9, 10}) save(store, 1, step, 0);
  CHECK(newest(store) == "step-10");
  CHECK_FALSE(fs::exists(folder.path("step-8")));
  CHECK(fs::exists(folder.path("step-9")));
  store.discard_after(9);
  CHECK(newest(store) == "step-9");
  save(store, 1, 9, 3);  // the same step again replaces it
  CHECK(newest(store) == "step-9");
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("checkpoints: damage to any file is named, and the one before it is used") {
  for (const std::string name : {"model.safetensors", "optimizer.safetensors", "meta.json"}) {
    const TemporaryFolder folder;
    const CheckpointStore store(folder.path(), 3);
    save(store, 1, 1, 0);
    save(store, 2, 2, 0);
    flip_a_byte(folder.path("step-2/" + name));
    std::string warnings;
    CHECK(newest(store, &warnings) == "step-1");
    INFO(warnings);
    CHECK(warnings.find("step-2: " + name) != std::string::npos);
    CHECK_THROWS_AS(open_checkpoint(folder.path("step-2")), Error);
    fs::remove(folder.path("step-1/" + name));
    CHECK(newest(store) == "");
  }
}

TEST_CASE("checkpoints: what was never finished is no checkpoint") {
  const TemporaryFolder folder;
  const CheckpointStore store(folder.path(), 2);
  save(store, 1, 1, 0);
  folder.write(".writing/model.safetensors", "half");
  folder.write("step-x/meta.json", "{}");
  CHECK(newest(store) == "step-1");
  save(store, 1, 2, 0);
  CHECK_FALSE(fs::exists(folder.path(".writing")));
}

TEST_CASE("checkpoints: a full disk is a clear error and leaves the previous one whole") {
  const TemporaryFolder folder;
  const CheckpointStore store(folder.path(), 2);
  save(store, 2, 1, 0);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  auto* const old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{300, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  std::string message;
  ExitCode code = ExitCode::ok;
  try {
    save(store, 2, 2, 0);
  } catch (const Error& problem) {
    message = problem.what();
    code = problem.code();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  INFO(message);
  CHECK(code == ExitCode::resources);
  CHECK(message.find("model.safetensors") != std::string::npos);
  CHECK(message.find("make room") != std::string::npos);
  CHECK(newest(store) == "step-1");
  CHECK_FALSE(fs::exists(folder.path("step-2")));
  CHECK_FALSE(fs::exists(folder.path(".writing")));
}
