#include "platforms/kernels/kernels.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace rehearse::kernels {

namespace {

/// Calls `use` with the values of a class, whose type has a table().
template <class ValuesOrConst, class Use>
decltype(auto) with_class(ValuesOrConst& values, Class kind, Use use) {
  switch (kind) {
    case Class::kVectorProduct:
      return use(values.products_fp32);
    case Class::kMatrixProduct:
      return use(values.products_reduced);
    case Class::kConvolution:
      return use(values.convolutions);
    case Class::kElementwise:
      return use(values.elementwise);
    case Class::kSoftmax:
      return use(values.softmax);
    case Class::kProcessorProduct:
      return use(values.processor_products);
    case Class::kProcessorConvolution:
      return use(values.processor_convolutions);
    case Class::kProcessorStreaming:
      return use(values.processor_streaming);
    case Class::kNorm:
      break;
  }
  return use(values.norms);
}

void read_values(Values& values, Class kind, const JsonReader& json) {
  std::vector<double> read = values_of(values, kind);
  const std::vector<ValueBounds> bounds = bounds_of(kind);
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    read[i] = json.required<double>(bounds[i].name);
    json.expect(read[i] >= bounds[i].low && read[i] <= bounds[i].high, bounds[i].name,
                "a value from " + Json(bounds[i].low).dump() + " to " + Json(bounds[i].high).dump());
  }
  json.reject_unknown_keys();
  set_values(values, kind, read);
}

Seconds time_on_processor(const Kernel& kernel, const Gpu& processor, const Values& values) {
  if (const auto* product = std::get_if<Product>(&kernel))
    return processor_time(*product, processor, values.processor_products);
  if (const auto* convolution = std::get_if<Convolution>(&kernel))
    return processor_time(*convolution, processor, values.processor_convolutions);
  if (const auto* transformer = std::get_if<Transformer>(&kernel))
    return transformer_time(*transformer, processor, values);
  return processor_time(std::get<Streaming>(kernel), processor, values.processor_streaming);
}

}  // namespace

Class class_of(const Kernel& kernel, const Gpu& gpu) {
  if (gpu.is_processor())
    return std::holds_alternative<Convolution>(kernel) ? Class::kProcessorConvolution
           : std::holds_alternative<Streaming>(kernel) ? Class::kProcessorStreaming
                                                       : Class::kProcessorProduct;
  if (const auto* product = std::get_if<Product>(&kernel))
    return is_reduced(product->precision) ? Class::kMatrixProduct : Class::kVectorProduct;
  if (std::holds_alternative<Convolution>(kernel)) return Class::kConvolution;
  if (const auto* transformer = std::get_if<Transformer>(&kernel))
    return is_reduced(transformer->precision) ? Class::kMatrixProduct : Class::kVectorProduct;
  switch (std::get<Streaming>(kernel).kind) {
    case StreamingKind::kSoftmax:
    case StreamingKind::kSoftmaxBackward:
    case StreamingKind::kReduction:
    case StreamingKind::kCrossEntropy:
      return Class::kSoftmax;
    case StreamingKind::kLayerNorm:
    case StreamingKind::kLayerNormBackward:
      return Class::kNorm;
    default:
      return Class::kElementwise;
  }
}

std::vector<ValueBounds> bounds_of(Class kind) {
  const Values values;
  return with_class(values, kind, [](const auto& of_class) {
    std::vector<ValueBounds> bounds;
    for (const auto& value : of_class.table()) bounds.push_back({value.name, value.low, value.high});
    return bounds;
  });
}

std::vector<double> values_of(const Values& values, Class kind) {
  return with_class(values, kind, [](const auto& of_class) {
    std::vector<double> result;
    for (const auto& value : of_class.table()) result.push_back(of_class.*value.member);
    return result;
  });
}

void set_values(Values& values, Class kind, std::span<const double> to) {
  with_class(values, kind, [&](auto& of_class) {
    std::size_t i = 0;
    for (const auto& value : of_class.table()) of_class.*value.member = to[i++];
  });
}

bool is_composite(const Kernel& kernel) { return std::holds_alternative<Transformer>(kernel); }

Seconds time(const Kernel& kernel, const Gpu& gpu, const Values& values) {
  if (gpu.is_processor()) return time_on_processor(kernel, gpu, values);
  const Class kind = class_of(kernel, gpu);
  if (const auto* product = std::get_if<Product>(&kernel))
    return plan_product(*product, gpu, kind == Class::kMatrixProduct ? values.products_reduced : values.products_fp32)
        .time;
  if (const auto* convolution = std::get_if<Convolution>(&kernel))
    return plan_convolution(*convolution, gpu, values.convolutions).time;
  if (const auto* transformer = std::get_if<Transformer>(&kernel)) return transformer_time(*transformer, gpu, values);
  return streaming_time(std::get<Streaming>(kernel), gpu,
                        kind == Class::kSoftmax ? values.softmax
                        : kind == Class::kNorm  ? values.norms
                                                : values.elementwise);
}

Seconds launch_time(const Kernel& kernel, const Gpu& gpu, const Values& values) {
  const auto cycles = [&] {
    switch (class_of(kernel, gpu)) {
      case Class::kVectorProduct:
        return values.products_fp32.launch;
      case Class::kMatrixProduct:
        return values.products_reduced.launch;
      case Class::kConvolution:
        return values.convolutions.launch;
      case Class::kElementwise:
        return values.elementwise.launch;
      case Class::kSoftmax:
        return values.softmax.launch;
      case Class::kNorm:
        return values.norms.launch;
      case Class::kProcessorProduct:
      case Class::kProcessorConvolution:
      case Class::kProcessorStreaming:
        break;
    }
    return 0.0;
  };
  return Seconds{cycles() / gpu.clock};
}

Seconds roofline(const Kernel& kernel, const Gpu& gpu) {
  return std::visit([&](const auto& of_class) { return roofline(of_class, gpu); }, kernel);
}

double flops(const Kernel& kernel) {
  return std::visit([](const auto& of_class) { return of_class.flops(); }, kernel);
}

const Values& Model::of(const Gpu& gpu) const {
  const auto known = by_architecture.find(gpu.architecture);
  return known != by_architecture.end() ? known->second : otherwise;
}

Model read_model(const JsonReader& json) {
  Model model;
  std::map<std::string, std::vector<std::pair<Class, JsonReader>>> of_architecture;
  for (const auto& [name, kind] : kClasses) {
    if (!json.has(name)) continue;
    const JsonReader of_class = json.child(name);
    read_values(model.otherwise, kind, of_class.child("values"));
    if (of_class.has("intervals")) (void)of_class.child("intervals").items();
    if (of_class.has("by_architecture"))
      for (const auto& [architecture, values] : of_class.child("by_architecture").items())
        of_architecture[architecture].emplace_back(kind, values);
    of_class.reject_unknown_keys();
  }
  json.reject_unknown_keys();
  for (const auto& [architecture, classes] : of_architecture) {
    Values& values = model.by_architecture.emplace(architecture, model.otherwise).first->second;
    for (const auto& [kind, reader] : classes) read_values(values, kind, reader);
  }
  return model;
}

Json to_json(const Model& model) {
  const auto values = [](const Values& all, Class kind) {
    Json json = Json::object();
    const std::vector<double> numbers = values_of(all, kind);
    const std::vector<ValueBounds> bounds = bounds_of(kind);
    for (std::size_t i = 0; i < bounds.size(); ++i) json[bounds[i].name] = numbers[i];
    return json;
  };
  Json json = Json::object();
  for (const auto& [name, kind] : kClasses) {
    json[name]["values"] = values(model.otherwise, kind);
    for (const auto& [architecture, own] : model.by_architecture)
      json[name]["by_architecture"][architecture] = values(own, kind);
  }
  return json;
}

std::string model_schema_text() {
  Json classes = Json::object();
  for (const auto& [name, kind] : kClasses) {
    Json properties = Json::object(), required = Json::array(), intervals = Json::object();
    for (const ValueBounds& value : bounds_of(kind)) {
      properties[value.name] = {{"type", "number"}, {"minimum", value.low}, {"maximum", value.high}};
      required.push_back(value.name);
    }
    const Json values = {
        {"type", "object"}, {"required", required}, {"additionalProperties", false}, {"properties", properties}};
    classes[name] = {{"type", "object"},
                     {"required", {"values"}},
                     {"additionalProperties", false},
                     {"properties",
                      {{"values", values},
                       {"intervals", {{"type", "object"}, {"description", "of 95 %, by value"}}},
                       {"by_architecture", {{"type", "object"}, {"additionalProperties", values}}}}}};
  }
  return Json{{"type", "object"},
              {"description", "values of kernels' formulas (platforms/kernels)"},
              {"additionalProperties", false},
              {"properties", classes}}
      .dump();
}

}  // namespace rehearse::kernels
