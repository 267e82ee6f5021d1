#include "predictor/torch_file.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/random.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {
namespace {

/// Written by Python's torch: tests/predictor/data/torch/make_files.py
const std::filesystem::path kFiles = source_folder() + "/tests/fuzz/corpus/torch_file";

using Numbers = std::vector<double>;
using Shape = std::vector<std::int64_t>;

std::string bytes_of(const char* name) { return read_file(kFiles / name, kMiB); }

std::string refusal_of(std::string_view bytes) {
  try {
    parse_torch_file(bytes, "f");
  } catch (const InputError& error) { return error.what(); }
  return "";
}

TorchValue sample() {
  TorchDict state{.is_ordered = true};
  state.items.emplace_back("w", TorchTensor::of_floats({2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6}));
  state.items.emplace_back("empty", TorchTensor::of_doubles({0, 4}, {}));
  TorchDict plain;
  plain.items.emplace_back(3, TorchList{{true, false, TorchValue{}, -0.1, "x\ny", std::int64_t{1} << 40U}});
  plain.items.emplace_back("i", TorchTensor::of_integers({}, std::vector<std::int64_t>{-5}));
  return TorchTuple{{std::move(state), std::move(plain), TorchTuple{}, TorchList{}}};
}

void require_same(const TorchValue& a, const TorchValue& b) {
  REQUIRE(a.value.index() == b.value.index());
  if (std::holds_alternative<std::shared_ptr<const TorchTensor>>(a.value)) {
    CHECK(a.tensor("a").type == b.tensor("b").type);
    CHECK(a.tensor("a").shape == b.tensor("b").shape);
    CHECK(a.tensor("a").bytes == b.tensor("b").bytes);
  } else if (std::holds_alternative<TorchDict>(a.value)) {
    CHECK(a.dict("a").is_ordered == b.dict("b").is_ordered);
    REQUIRE(a.dict("a").items.size() == b.dict("b").items.size());
    for (std::size_t i = 0; i < a.dict("a").items.size(); ++i) {
      require_same(a.dict("a").items[i].first, b.dict("b").items[i].first);
      require_same(a.dict("a").items[i].second, b.dict("b").items[i].second);
    }
  } else if (std::holds_alternative<TorchTuple>(a.value) || std::holds_alternative<TorchList>(a.value)) {
    REQUIRE(a.list("a").size() == b.list("b").size());
    for (std::size_t i = 0; i < a.list("a").size(); ++i) require_same(a.list("a")[i], b.list("b")[i]);
  } else if (std::holds_alternative<std::string>(a.value)) {
    CHECK(a.text("a") == b.text("b"));
  } else if (std::holds_alternative<bool>(a.value)) {
    CHECK(a.boolean("a") == b.boolean("b"));
  } else if (!std::holds_alternative<TorchValue::None>(a.value)) {
    CHECK(a.number("a") == b.number("b"));
  }
}

}  // namespace

TEST_CASE("a state_dict is read from the zip archive and from the older layout, whatever its device") {
  for (const char* name : {"state_dict_cuda", "state_dict_legacy", "parameters"}) {
    CAPTURE(name);
    const TorchValue state = load_torch_file(kFiles / name);
    const TorchDict& dict = state.dict("state");
    CHECK(dict.is_ordered);
    REQUIRE(dict.items.size() == 2);
    const TorchTensor& weight = dict.items[0].second.tensor("weight");
    CHECK(weight.type == TensorType::kFloat32);
    CHECK(weight.shape == Shape{3, 2});
    CHECK(weight.values() == Numbers{0, 0.25, 0.5, 0.75, 1, 1.25});
    CHECK(dict.items[1].second.tensor("bias").floats() == std::vector<float>{1, -1, 0.5F});
    CHECK(state.find(name == std::string{"parameters"} ? "w" : "weight") == &dict.items[0].second);
    CHECK(state.find("none") == nullptr);
  }
}

TEST_CASE("all element types, views and plain values are read") {
  for (const char* name : {"values", "values_legacy"}) {
    CAPTURE(name);
    const TorchValue root = load_torch_file(kFiles / name);
    const TorchItems& types = root.at("types", "f").list("types");
    REQUIRE(types.size() == 10);
    for (std::size_t i = 0; i < types.size(); ++i) {
      const TorchTensor& tensor = types[i].tensor("t");
      CHECK(static_cast<std::size_t>(tensor.type) == i);
      CHECK(tensor.values() == (i < 8 ? Numbers{1, -2, 3} : i == 8 ? Numbers{1, 254, 3} : Numbers{1, 0, 1}));
    }
    const TorchItems& views = root.at("views", "f").list("views");
    REQUIRE(views.size() == 6);
    CHECK(views[0].tensor("v").values() == Numbers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    CHECK(views[1].tensor("v").shape == Shape{4, 3});
    CHECK(views[1].tensor("v").values() == Numbers{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
    CHECK(views[2].tensor("v").values() == Numbers{4, 6, 8, 10});
    CHECK(views[3].tensor("v").shape.empty());
    CHECK(views[3].tensor("v").values() == Numbers{11});
    CHECK(views[4].tensor("v").shape == Shape{0, 4});
    CHECK(views[4].tensor("v").size() == 0);
    CHECK(views[5].tensor("v").values() == Numbers(6, 1.0));
    const TorchItems& plain = root.at("plain", "f").list("plain");
    REQUIRE(plain.size() == 14);
    CHECK(std::holds_alternative<TorchValue::None>(plain[0].value));
    CHECK(plain[1].boolean("b"));
    CHECK(!plain[2].boolean("b"));
    CHECK(plain[3].integer("i") == 7);
    CHECK(plain[4].integer("i") == -300);
    CHECK(plain[5].integer("i") == std::int64_t{1} << 31U);
    CHECK(plain[6].integer("i") == -(std::int64_t{1} << 40U));
    CHECK(plain[7].number("n") == 0.25);
    CHECK(plain[8].text("t") == "gr\u00fc\u00dfe");
    CHECK(plain[13].list("l")[0].list("l")[1].integer("i") == 2);
    CHECK(root.at("shape", "f").list("shape")[1].integer("i") == 4);
    const Numbers halves = root.at("halves", "f").tensor("h").values();
    CHECK(halves[0] == 65504.0);
    CHECK(halves[1] == std::ldexp(1.0, -24));
    CHECK(halves[2] == std::numeric_limits<double>::infinity());
    CHECK(halves[3] == -0.5);
  }
}

TEST_CASE("what is written is read back the same, always with the same bytes") {
  const std::string bytes = to_torch_file(sample());
  CHECK(to_torch_file(sample()) == bytes);
  require_same(parse_torch_file(bytes, "f"), sample());
  const test::TemporaryFolder folder;
  write_torch_file(folder / "x.pt", sample());
  require_same(load_torch_file(folder / "x.pt"), sample());
  for (const char* name : {"values", "state_dict_cuda"}) {
    const TorchValue value = load_torch_file(kFiles / name);
    require_same(parse_torch_file(to_torch_file(value), "f"), value);
  }
}

TEST_CASE("whole modules and other classes are refused with the way out") {
  const std::string advice =
      ", which is not read: only tensors, numbers, texts, lists, tuples and dicts are; of a module, save its "
      "state_dict()";
  CHECK(refusal_of(bytes_of("module")) ==
        "f: holds an object of the Python class \"torch.nn.modules.linear.Linear\"" + advice);
  CHECK(refusal_of(bytes_of("module_legacy")).find("state_dict()") != std::string::npos);
  // cos.system, called with "true": refused before anything is called
  CHECK(refusal_of("\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02"
                   "cos\nsystem\n(X\x04" +
                   std::string(3, '\0') + "truetR.") ==
        "f: holds an object of the Python class \"os.system\"" + advice);
}

TEST_CASE("files that are no torch files, or damaged ones, are refused with one line") {
  CHECK(refusal_of("") == "f: expected a file of torch.save; found something else");
  CHECK(refusal_of("PK") == "f: the zip archive is cut short or damaged");
  std::string damaged = to_torch_file(sample());
  const std::size_t weights = damaged.find(std::string{"\0\0\x80\x3f\0\0\0\x40", 8});
  REQUIRE(weights != std::string::npos);
  CHECK(weights % 64 == 0);
  damaged[weights + 3] = '\x40';
  CHECK(refusal_of(damaged) == "f: the record \"archive/data/0\" is damaged: its checksum is wrong");
  const std::string legacy = bytes_of("state_dict_legacy");
  CHECK(refusal_of(std::string_view{legacy}.substr(0, legacy.size() - 1)) == "f: ends within its storages");
  std::string far = legacy;  // the bias begins beyond its storage
  const std::size_t view = far.find(std::string{"QK\0K\x03\x85", 6});
  REQUIRE(view != std::string::npos);
  far[view + 2] = '\x01';
  CHECK(refusal_of(far).ends_with("reaches beyond its storage"));
}

TEST_CASE("records that overlap are refused before anything is read of them") {
  std::string archive = to_torch_file(sample());
  const auto entry_of = [&](const std::string& name) {  // its number and contents in the directory
    const std::size_t at = archive.rfind(name);
    REQUIRE(at != std::string::npos);
    return at - 46;
  };
  const std::size_t first = entry_of("archive/data/0"), second = entry_of("archive/data/2");
  std::string twice = archive;  // both names are those of the first one's bytes, checksum and all
  twice.replace(second + 16, 12, archive, first + 16, 12);
  twice.replace(second + 42, 4, archive, first + 42, 4);
  CHECK(refusal_of(twice) == "f: the record \"archive/data/0\" overlaps the record \"archive/data/2\"");
  std::string long_one = archive;  // the last record goes on into the directory
  const std::size_t last = entry_of("archive/version");
  long_one[last + 20] = long_one[last + 24] = '\x10';
  CHECK(refusal_of(long_one) == "f: the record \"archive/version\" overlaps the archive's directory");
}

TEST_CASE("a few bytes cannot ask for copies without end") {
  const std::string magic = "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.", rest = "\x80\x02M\xe9\x03.\x80\x02}.";
  const auto count = [](std::size_t number) {
    return std::string{reinterpret_cast<const char*>(&number), 4};  // little-endian
  };
  std::string texts = magic + rest + "\x80\x02](X" + count(kMiB) + std::string(kMiB, 'x') + std::string{"q\0", 2};
  for (int i = 0; i < 1000; ++i) texts += std::string{"h\0", 2};
  CHECK(refusal_of(texts + "e.\x80\x02].") == "f: repeats a text too often");

  std::string dicts = magic + rest + "\x80\x02(](";  // a list of pairs, from which dicts are made again and again
  for (int i = 0; i < 100'000; ++i) dicts += "NN\x86";
  dicts += std::string{"eq\0ccollections\nOrderedDict\nq\1", 30};
  for (int i = 0; i < 1000; ++i) dicts += std::string{"h\1h\0\x85R", 6};
  CHECK(refusal_of(dicts + "t.").find("the pickle repeats its content too often") != std::string::npos);

  std::string storages = magic + rest + "\x80\x02((X" + count(7) + "storagectorch\nFloatStorage\nX" + count(kMiB) +
                         std::string(kMiB, 'x') + "X" + count(3) + "cpuK\1t" + std::string{"q\0", 2};
  for (int i = 0; i < 1000; ++i) storages += std::string{"h\0Q", 3};
  CHECK(refusal_of(storages + "t.").find("the pickle repeats its content too often") != std::string::npos);
}

TEST_CASE("no cut and no changed byte does more than change a value or be refused") {
  Rng random{11, "torch file"};
  for (const char* name : {"values", "values_legacy", "state_dict_legacy", "parameters"}) {
    const std::string bytes = bytes_of(name);
    for (int i = 0; i < 400; ++i) {
      std::string changed = bytes.substr(0, i % 2 == 0 ? bytes.size() : random.below(bytes.size()));
      if (!changed.empty()) changed[random.below(changed.size())] = static_cast<char>(random.below(256));
      const std::string message = refusal_of(changed);
      CHECK(message.find('\n') == std::string::npos);
    }
  }
}

TEST_CASE("values of another kind than expected are refused") {
  const TorchValue root = sample();
  CHECK_THROWS_WITH_AS(root.tensor("x.pt: adj"), "x.pt: adj: expected a tensor; found a tuple", InputError);
  CHECK_THROWS_WITH_AS(root.dict("x.pt"), "x.pt: expected a dict; found a tuple", InputError);
  CHECK_THROWS_WITH_AS(root.list("x")[0].at("v", "x.pt"), "x.pt: expected the key \"v\"", InputError);
  CHECK_THROWS_WITH_AS(TorchValue{1.5}.integer("x"), "x: expected an integer; found a number", InputError);
}

}  // namespace rehearse
