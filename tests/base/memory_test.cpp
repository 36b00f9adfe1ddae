// What is left of a machine's memory, from trees of /proc and /sys as systems show them.
#include "core/base/memory.h"

#include <doctest/doctest.h>

#include <limits>

#include "tests/support/temporary_folder.h"

using moelab::available_memory;
using moelab::testing::TemporaryFolder;

namespace {

constexpr const char* kMachine = "MemTotal: 4000 kB\nMemFree: 10 kB\nMemAvailable: 2000 kB\n";

}  // namespace

TEST_CASE("available memory: what the machine has, where no group limits it") {
  const TemporaryFolder root;
  CHECK(available_memory(root.path()) == std::numeric_limits<std::size_t>::max());
  root.write("proc/meminfo", kMachine);
  CHECK(available_memory(root.path()) == 2000 * 1024);
  root.write("proc/self/cgroup", "0::/user/run\n");
  root.write("sys/fs/cgroup/user/run/memory.max", "max\n");
  root.write("sys/fs/cgroup/user/run/memory.current", "5000\n");
  CHECK(available_memory(root.path()) == 2000 * 1024);
}

TEST_CASE("available memory: the tightest group of version 2 on the way up counts") {
  const TemporaryFolder root;
  root.write("proc/meminfo", kMachine);
  root.write("proc/self/cgroup", "0::/user/run\n");
  const std::string own = "sys/fs/cgroup/user/run/", above = "sys/fs/cgroup/user/";
  root.write(own + "memory.max", "1000000\n");
  root.write(own + "memory.current", "400000\n");
  CHECK(available_memory(root.path()) == 600000);
  root.write(own + "memory.stat", "anon 1\ninactive_file 70000\nactive_file 30000\nfile 9\n");
  CHECK(available_memory(root.path()) == 700000);  // cached files are given up
  root.write(above + "memory.max", "500000\n");
  root.write(above + "memory.current", "450000\n");
  CHECK(available_memory(root.path()) == 50000);
  root.write(above + "memory.current", "510000\n");
  CHECK(available_memory(root.path()) == 0);
}

TEST_CASE("available memory: groups of version 1, and a container that sees only its root") {
  const TemporaryFolder root;
  root.write("proc/meminfo", kMachine);
  root.write("proc/self/cgroup", "9:cpu,cpuacct:/x\n4:hugetlb,memory:/docker/abc\n0::/\n");
  const std::string mount = "sys/fs/cgroup/memory/";
  root.write(mount + "memory.limit_in_bytes", "300000\n");
  root.write(mount + "memory.usage_in_bytes", "100000\n");
  root.write(mount + "memory.stat", "inactive_file 5\ntotal_inactive_file 20000\n");
  CHECK(available_memory(root.path()) == 220000);
  root.write(mount + "docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
  root.write(mount + "docker/abc/memory.usage_in_bytes", "100000\n");
  CHECK(available_memory(root.path()) == 220000);
}
