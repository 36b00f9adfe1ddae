// Verbs that need no trained model, run as a user would.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/support/run_command.h"
#include "tests/support/temporary_folder.h"

using namespace moelab::testing;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string recipe_with(const TemporaryFolder& folder, const std::string& text_path) {
  return folder.write("r.toml",
                      "[model]\nhidden = 16\nlayers = [\"ffn\"]\nheads = 2\nkv_heads = 2\n"
                      "[ffn.ffn]\nkind = \"dense\"\nwidth = 16\n"
                      "[data]\nsequence_length = 8\n"
                      "[data.dataset]\ntype = \"text\"\nheldout_fraction = 0.25\npath = \"" +
                          text_path +
                          "\"\n[train]\nsteps = 1\nbatch = 2\n[schedule]\nwarmup_steps = 0\n");
}

}  // namespace

TEST_CASE("data export writes exactly the bytes of each part") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += static_cast<char>('!' + i % 90);
  const std::string recipe = recipe_with(folder, folder.write("t.txt", text));
  const CommandResult heldout = run_moelab("data export " + recipe);
  CHECK(heldout.code == 0);
  CHECK(heldout.text == text.substr(75));
  CHECK(run_moelab("data export --split train " + recipe).text == text.substr(0, 75));
  const std::string out = folder.path("part");
  CHECK(run_moelab("data export " + recipe + " --out " + out).code == 0);
  CHECK(std::filesystem::file_size(out) == 25);
  CHECK(run_moelab("data export " + recipe + " --out " + folder.path("no/such/folder")).code == 7);
}

TEST_CASE("data inspect tells files, sizes and rows") {
  const TemporaryFolder folder;
  const std::string recipe = recipe_with(folder, folder.write("t.txt", std::string(100, 'a')));
  const CommandResult result = run_moelab("data inspect " + recipe);
  CHECK(result.code == 0);
  for (const char* part :
       {"100 bytes in 1 file", "train:    75 bytes, 75 tokens", "held out: 25 bytes, 25 tokens",
        "held-out rows of 8: 4", "a step shows 2 rows of 8; an epoch is 8 rows, 4 steps",
        "fingerprint: "})
    CHECK_MESSAGE(contains(result.text, part), part);
}

TEST_CASE("data inspect counts an epoch of padded documents in documents") {
  const TemporaryFolder folder;
  const std::string recipe = recipe_with(folder, folder.write("t.txt", "ab\ncd\nefghijklmnop\nq"));
  const CommandResult result =
      run_moelab("data inspect " + recipe +
                 " --set data.dataset='{type = \"documents\", mode = \"pad\", separator = "
                 "\"\\n\", heldout_fraction = 0.01}'");
  CHECK(result.code == 0);
  // ab, cd, and efghijklmnop in two rows of 8
  CHECK_MESSAGE(contains(result.text, "an epoch is 4 rows, 2 steps"), result.text);
}

TEST_CASE("each kind of failure has its exit code") {
  const TemporaryFolder folder;
  const std::string good = recipe_with(folder, folder.write("t.txt", std::string(100, 'a')));
  CHECK(run_moelab("check " + good).code == 0);
  CHECK(run_moelab("check " + good + " --set train.steps=oops").code == 2);
  CHECK(run_moelab("data inspect " + folder.path("missing.toml")).code == 2);
  CHECK(run_moelab("data inspect " + good + " --set data.dataset.path=/no/such/file").code == 3);
  CHECK(run_moelab("data inspekt " + good).code == 2);
  CHECK(run_moelab("data export " + good + " --split half").code == 2);
  CHECK(run_moelab("eval " + folder.path()).code == 4);
  CHECK(run_moelab("generate " + folder.path()).code == 4);
  CHECK(run_moelab("trace " + folder.path()).code == 3);
}

TEST_CASE("a wrong action of data is told before the recipe that is missing too") {
  const CommandResult result = run_moelab("data bar");
  CHECK(result.code == 2);
  CHECK(result.text.starts_with("moelab: ACTION = 'bar' must be one of inspect export"));
  CHECK(run_moelab("data").text.starts_with("moelab: missing ACTION ("));
}

TEST_CASE("components as text and as data") {
  CHECK(contains(run_moelab("components").text, "\nrouter\n"));
  CHECK(contains(run_moelab("components router softmax").text, "experts chosen per token"));
  CHECK(run_moelab("components router --json").text.front() == '[');
  CHECK(run_moelab("components router softmax --format json").text.front() == '{');
  CHECK(run_moelab("components --format md").text.starts_with("# Components"));
  const CommandResult unknown = run_moelab("components router softmix");
  CHECK(unknown.code == 2);
  CHECK(contains(unknown.text, "did you mean 'softmax'?"));
  CHECK(run_moelab("components --format xml").code == 2);
  CHECK(contains(run_moelab("components --schema").text, "json-schema.org/draft/2020-12"));
  CHECK(run_moelab("components router --schema").code == 2);
}

TEST_CASE("threads of a run wait shortly, unless the environment says otherwise") {
  const TemporaryFolder folder;
  const std::string recipe = recipe_with(folder, folder.write("t.txt", std::string(100, 'a')));
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());  // runs/latest goes there
  const auto spins = [&](const std::string& out) {
    CHECK(run_moelab("train " + recipe + " --quiet --set sample.tokens=1 --out " + out).code == 0);
    std::ifstream file(folder.path(out + "/environment.json"));
    std::string text{std::istreambuf_iterator<char>(file), {}};
    return text.substr(text.find("\"GOMP_SPINCOUNT\": "));
  };
  ::unsetenv("OMP_WAIT_POLICY");
  ::setenv("GOMP_SPINCOUNT", "7", 1);
  CHECK(spins("own").starts_with("\"GOMP_SPINCOUNT\": \"7\""));
  ::unsetenv("GOMP_SPINCOUNT");
  CHECK(spins("ours").starts_with("\"GOMP_SPINCOUNT\": \"2000\""));
  std::filesystem::current_path(before);
}

TEST_CASE("doctor reports on this machine") {
  const CommandResult result = run_moelab("doctor");
  CHECK(result.code == 0);
  for (const char* part :
       {"GEMM: f32 by oneDNN", "threads: ", "memory: ", "huge pages: ", "components: ", "CUDA: "})
    CHECK_MESSAGE(contains(result.text, part), part);
}

TEST_CASE("topology prints groups of any size, places parameters, and says what does not fit") {
  const CommandResult groups = run_moelab("topology --world 64 --tp 2 --ep 8");
  CHECK(groups.code == 0);
  for (const char* part : {"experts, fastest axis first: tp=1 cp=1 ep=8 dp=8 pp=1",
                           "ep (other experts): 8 of 8\n  [0..7] [8..15]",
                           "dp (other rows of the batch): 2 of 32\n  [0..62 by 2] [1..63 by 2]",
                           "cp (cut sequences): every rank alone"})
    CHECK_MESSAGE(contains(groups.text, part), part);
  const std::string words =
      "topology --world 16 --tp 2 --ep 4 --pp 2 --layers 4 --experts 8 --tensor ";
  CHECK(run_moelab(words + "model.layers.3.mlp.experts.5.up_proj.weight").text ==
        "model.layers.3.mlp.experts.5.up_proj.weight: stage 1, ep 2; 2 ranks [10 14]\n");
  CHECK(run_moelab(words + "model.layers.0.self_attn.q_proj.weight").text ==
        "model.layers.0.self_attn.q_proj.weight: stage 0, cut over tp; 8 ranks [0..7]\n");
  CHECK(contains(run_moelab(words + "model.layers.4.mlp.gate.weight").text,
                 "is of layer 4, but there are 4; see --layers"));
  for (const char* name :
       {"nonsense", "layers.1.mlp.experts.up.weight", "model.layers.1.mlp.experts.up_proj",
        "model.layers.0.mlp.typo_proj.weight", "model.layers.x.mlp.gate.weight"})
    CHECK_MESSAGE(contains(run_moelab(words + name).text, "is no name of a checkpoint's"), name);
  CHECK(run_moelab("topology --world 16 --tp 3").code == 2);
  CHECK(contains(run_moelab("topology --world 16 --ep 32").text,
                 "etp · ep · pp = 1 · 32 · 1 does not divide the world of 16 ranks"));
  CHECK(contains(run_moelab("topology --world 8 --tp 2 --order cp-ep-dp-pp").text,
                 "leaves out tp, which has more than one rank here"));
  CHECK(run_moelab("topology --world 9223372036854775807 --tp 4294967296").code == 2);
}

namespace {

std::string moe_recipe(const TemporaryFolder& folder, const std::string& name,
                       const std::string& layers, const std::string& networks) {
  return folder.write(name, "[model]\nhidden = 16\nlayers = " + layers +
                                "\nheads = 2\nkv_heads = 2\n" + networks +
                                "[data]\nsequence_length = 8\ndataset = { type = \"text\", path = "
                                "\"t\", heldout_fraction = 0.25 }\n[train]\nsteps = 1\nbatch = 2\n"
                                "[schedule]\nwarmup_steps = 0\n");
}

}  // namespace

TEST_CASE("regression: check knows of losses on a gate that the router does not have") {
  const TemporaryFolder folder;
  for (const std::string router : {"random", "round_robin", "hash", "cosine"}) {
    const CommandResult result =
        run_moelab("check " + moe_recipe(folder, router + ".toml", "[\"moe\"]",
                                         "[ffn.moe]\nkind = \"moe\"\nnum_experts = 4\nrouter = \"" +
                                             router + "\"\nbalancers.similarity = {}\n"));
    CHECK(result.code == 2);
    CHECK_MESSAGE(
        contains(result.text, "is a loss on the gate's weight, which this layer's router"),
        result.text);
  }
  CHECK(run_moelab("check " + moe_recipe(folder, "softmax.toml", "[\"moe\"]",
                                         "[ffn.moe]\nkind = \"moe\"\nnum_experts = 4\nrouter = "
                                         "\"softmax\"\nbalancers.similarity = {}\n"))
            .code == 0);
}

TEST_CASE("regression: check knows of a pooled loss over layers with different experts") {
  const TemporaryFolder folder;
  const std::string small = "[ffn.small]\nkind = \"moe\"\nnum_experts = 4\n",
                    wide = "[ffn.wide]\nkind = \"moe\"\nnum_experts = ",
                    pooled = "balancers.pooled_aux = {}\n";
  const CommandResult result =
      run_moelab("check " + moe_recipe(folder, "r.toml", "[\"small\", \"wide\"]",
                                       small + wide + "8\n" + pooled));
  CHECK(result.code == 2);
  CHECK_MESSAGE(contains(result.text, "takes all MoE layers as one, but [ffn.small] has 4 experts"),
                result.text);
  CHECK(run_moelab("check " + moe_recipe(folder, "same.toml", "[\"small\", \"wide\"]",
                                         small + wide + "4\n" + pooled))
            .code == 0);
}
