// The model editor and the compile API as onnxruntime's C++ wrapper uses them: builds a model, compiles it to a file, and
// changes that file's model. Takes a folder for the files.

#include <onnxruntime_cxx_api.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

static void require(bool is_met, const char *what) {
  if (is_met) return;
  std::fprintf(stderr, "editor.cc: %s\n", what);
  std::exit(1);
}

static Ort::ValueInfo floats(const char *name, std::vector<int64_t> dims) {
  std::vector<std::string> symbols(dims.size());
  if (!dims.empty() && dims[0] < 0) symbols[0] = "n";
  Ort::TensorTypeAndShapeInfo tensor(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, dims, &symbols);
  return Ort::ValueInfo(name, Ort::TypeInfo::CreateTensorInfo(tensor.GetConst()).GetConst());
}

// z = Gemm(x, y, alpha: 2): x is an input, y an initializer over `weights`.
static Ort::Model built(std::vector<float> &weights) {
  Ort::Graph graph;
  std::vector<Ort::ValueInfo> inputs, outputs;
  inputs.push_back(floats("x", {-1, 4}));
  outputs.push_back(floats("z", {-1, 8}));
  graph.SetInputs(inputs);
  graph.SetOutputs(outputs);
  float alpha = 2;
  std::vector<Ort::OpAttr> attributes;
  attributes.emplace_back("alpha", &alpha, 1, ORT_OP_ATTR_FLOAT);
  Ort::Node gemm("Gemm", "", "gemm", {"x", "y"}, {"z"}, attributes);
  require(static_cast<OrtOpAttr *>(attributes[0]) == nullptr, "a node owns its attributes");
  graph.AddNode(gemm);
  auto info = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
  std::vector<int64_t> dims{4, 8};
  auto y = Ort::Value::CreateTensor<float>(info, weights.data(), weights.size(), dims.data(), dims.size());
  graph.AddInitializer("y", y, true);
  require(graph.GetNodes().size() == 1, "the graph has a node");
  Ort::Model model({{"", 18}});
  model.AddGraph(graph);
  return model;
}

template <typename T>
static std::vector<float> run(Ort::Session &session, const char *input, const char *output) {
  auto info = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
  std::vector<T> numbers{1, 2, 3, 4};
  std::vector<int64_t> dims{1, 4};
  auto x = Ort::Value::CreateTensor<T>(info, numbers.data(), numbers.size(), dims.data(), dims.size());
  auto values = session.Run(Ort::RunOptions{}, &input, &x, 1, &output, 1);
  const float *from = values[0].template GetTensorData<float>();
  return {from, from + values[0].GetTensorTypeAndShapeInfo().GetElementCount()};
}

int main(int argc, char **argv) {
  require(argc == 2, "takes a folder");
  std::string folder = argv[1], path = folder + "/built.onnx";
  Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "editor");
  Ort::SessionOptions options;
  std::vector<float> weights(32);
  std::iota(weights.begin(), weights.end(), 1.0f);

  std::vector<float> z;
  {
    Ort::Model model = built(weights);
    options.SetOptimizedModelFilePath(path.c_str());
    Ort::Session session(env, model, options);
    z = run<float>(session, "x", "z");
    require(z[0] == 340 && z[7] == 480, "the built model computes 2xy");
  }

  // A cast before the model, and a negation behind it.
  Ort::SessionOptions plain;
  Ort::Session session = Ort::Session::CreateModelEditorSession(env, path.c_str(), plain);
  require(session.GetOpset("") == 18, "the model has operator set 18");
  auto inputs = session.GetInputs();
  require(inputs.size() == 1 && inputs[0].GetName() == "x", "the model's input is x");
  int64_t to = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  std::vector<Ort::OpAttr> attributes;
  attributes.emplace_back("to", &to, 1, ORT_OP_ATTR_INT);
  Ort::Node cast("Cast", "", "cast", {"integers"}, {"x"}, attributes);
  Ort::Node neg("Neg", "", "neg", {"z"}, {"negated"});
  Ort::TensorTypeAndShapeInfo shape(ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, {-1, 4});
  inputs[0] = Ort::ValueInfo("integers", Ort::TypeInfo::CreateTensorInfo(shape.GetConst()).GetConst());
  std::vector<Ort::ValueInfo> outputs;
  outputs.push_back(floats("negated", {-1, 8}));
  Ort::Graph additions;
  additions.AddNode(cast);
  additions.AddNode(neg);
  additions.SetInputs(inputs);
  additions.SetOutputs(outputs);
  Ort::Model update(std::vector<Ort::Model::DomainOpsetPair>{});
  update.AddGraph(additions);
  session.FinalizeModelEditorSession(update, plain);
  auto negated = run<int64_t>(session, "integers", "negated");
  for (size_t i = 0; i < z.size(); i++) require(negated[i] == -z[i], "the changed model negates");

  // Nodes that read what is not there are rejected.
  Ort::Session invalid = Ort::Session::CreateModelEditorSession(env, path.c_str(), plain);
  try {
    Ort::Graph graph;
    Ort::Node node("Neg", "", "neg", {"nothing"}, {"more"});
    graph.AddNode(node);
    Ort::Model model(std::vector<Ort::Model::DomainOpsetPair>{});
    model.AddGraph(graph);
    invalid.FinalizeModelEditorSession(model, plain);
    require(false, "an invalid change is rejected");
  } catch (const Ort::Exception &error) {
    require(std::string(error.what()).find("nothing") != std::string::npos, error.what());
  }

  // The compile API: initializers in a file, and a function that writes the model.
  Ort::ModelCompilationOptions compilation(env, plain);
  std::string bytes, compiled = folder + "/compiled.onnx";
  compilation.SetInputModelPath(path.c_str()).SetGraphOptimizationLevel(ORT_ENABLE_ALL).SetFlags(OrtCompileApiFlags_NONE);
  compilation.SetOutputModelWriteFunc(
      [](void *state, const void *data, size_t n) -> OrtStatus * {
        static_cast<std::string *>(state)->append(static_cast<const char *>(data), n);
        return nullptr;
      },
      &bytes);
  Ort::ThrowOnError(Ort::CompileModel(env, compilation));
  Ort::Session written(env, bytes.data(), bytes.size(), plain);
  require(run<float>(written, "x", "z") == z, "the written model computes the same");
  compilation.SetOutputModelPath(compiled.c_str()).SetOutputModelExternalInitializersFile("compiled.data", 0);
  Ort::ThrowOnError(Ort::CompileModel(env, compilation));
  Ort::Session external(env, compiled.c_str(), plain);
  require(run<float>(external, "x", "z") == z, "the model with external data computes the same");

  auto devices = env.GetEpDevices();
  require(devices.size() == 1 && std::string(devices[0].EpName()) == "CPUExecutionProvider", "the device is the CPU");
  return 0;
}
