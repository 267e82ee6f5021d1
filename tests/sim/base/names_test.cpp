#include "sim/base/names.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "sim/base/random.hpp"

namespace rehearse {
namespace {

std::string random_word(Rng& rng) {
  std::string word;
  for (auto n = rng.below(8); n > 0; --n) word += static_cast<char>('a' + rng.below(3));
  return word;
}

}  // namespace

TEST_CASE("edit distance counts insertions, deletions, substitutions and swaps of neighbours") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("latncy", "latency") == 1);
  CHECK(edit_distance("ab", "ba") == 1);
  CHECK(edit_distance("ca", "abc") == 3);  // no edit inside a swapped pair
}

TEST_CASE("edit distance is symmetric, zero only between equals, and at most the longer length") {
  Rng rng{2, "words"};
  for (int i = 0; i < 2000; ++i) {
    const std::string a = random_word(rng), b = random_word(rng);
    CAPTURE(a);
    CAPTURE(b);
    const std::size_t distance = edit_distance(a, b);
    CHECK(distance == edit_distance(b, a));
    CHECK((distance == 0) == (a == b));
    CHECK(distance <= std::max(a.size(), b.size()));
    CHECK(distance >= std::max(a.size(), b.size()) - std::min(a.size(), b.size()));
  }
}

TEST_CASE("an unknown name gets the nearest one, or a list") {
  const std::vector<std::string> models{"resnet15", "resnet32", "vgg16"};
  CHECK(unknown_name_message("model", "resnt15", models) == R"(unknown model "resnt15"; did you mean "resnet15"?)");
  CHECK(unknown_name_message("model", "VGG16", models) == R"(unknown model "VGG16"; did you mean "vgg16"?)");
  CHECK(unknown_name_message("model", "bert", models) ==
        R"(unknown model "bert"; known: "resnet15", "resnet32", "vgg16")");
  CHECK(unknown_name_message("model", "x", {}) == R"(unknown model "x"; none is known here)");
}

TEST_CASE("a hint never leads to a thing whose number is another, nor to another network") {
  const std::vector<std::string> names{"resnet50", "bert_base", "vgg16", "V100", "qwen2", "g3.8xlarge", "gpt2"};
  for (const char* name : {"resnet51", "vgg19", "V1000", "V10", "qwen3", "g3.9xlarge", "gpt", "gpt3", "qwen"}) {
    CHECK_FALSE(nearest_name(name, names));
    CHECK(unknown_name_message("thing", name, names).find("; known: \"resnet50\", ") != std::string::npos);
  }
  CHECK(nearest_name("resnt50", names) == "resnet50");
  for (const char* name : {"resnext50", "albert_base", "rbert_base", "resnest50", "gpt22"})
    CHECK(unknown_network_message("model", name, names).find("did you mean") == std::string::npos);
  CHECK(unknown_network_message("model", "resnt50", names) == R"(unknown model "resnt50"; did you mean "resnet50"?)");
  CHECK(unknown_network_message("model", "x", {}) == R"(unknown model "x"; none is known here)");
}

TEST_CASE("a long list of known names is cut, and says so") {
  std::vector<std::string> names;
  for (int i = 0; i < 25; ++i) names.push_back("instance-type-" + std::to_string(i));
  const std::string message = unknown_name_message("instance", "zzz", names);
  CHECK(message.ends_with(R"("instance-type-19" and 5 more)"));
}

TEST_CASE("huge names cost no time") {
  const std::vector<std::string> candidates{std::string(10'000'000, 'a'), "abc"};
  CHECK_FALSE(nearest_name(std::string(9'999'999, 'a'), candidates));
}

TEST_CASE("quoted text is one short line whatever it holds") {
  CHECK(in_quotes("abc") == R"("abc")");
  CHECK(in_quotes(std::string{"a\nb\0c", 5}) == R"("a\x0ab\x00c")");
  CHECK(in_quotes("caf\xc3\xa9 \xe9") == "\"caf\xc3\xa9 \\xe9\"");
  CHECK(in_quotes("a\xe2\x80\xaegpj.b") == "\"a\\u202egpj.b\"");  // right-to-left override
  CHECK(in_quotes("a\xe2\x80\x8b"
                  "b\xc2\x9b") == "\"a\\u200bb\\u009b\"");   // zero-width space, CSI
  CHECK(in_quotes("\xf3\xa0\x81\x81") == "\"\\u{e0041}\"");  // tag
  CHECK(in_quotes("\xe4\xb8\xad \xf0\x9f\x98\x80") == "\"\xe4\xb8\xad \xf0\x9f\x98\x80\"");
  CHECK(in_quotes(std::string(100, 'x')) == '"' + std::string(60, 'x') + R"(...")");
}

TEST_CASE("UTF-8 excludes overlong forms, surrogates and values beyond Unicode") {
  CHECK_FALSE(find_invalid_utf8("plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"));
  for (const std::string bad :
       {"\x80", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82"}) {
    CHECK(find_invalid_utf8("ab" + bad) == 2);
  }
}

TEST_CASE("names of GPUs and machines have the article with which they are spoken") {
  for (const char* name : {"A100 PCIe", "H100", "L4", "M60", "RTX A6000", "MI300X", "hgx-b200"})
    CHECK(with_article(name) == std::string{name[0] == 'h' ? "a " : "an "} + name);
  for (const char* name :
       {"V100 SXM2 32GB", "T4", "P100", "B200", "GB200", "K80", "Titan RTX", "Quadro RTX 8000", "p4d.24xlarge"})
    CHECK(with_article(name) == std::string{"a "} + name);
}

}  // namespace rehearse
