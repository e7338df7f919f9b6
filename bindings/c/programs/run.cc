// The same as run.c through the C++ wrapper, with outputs bound.

#include <onnxruntime_cxx_api.h>

#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

struct Input {
  std::string name;
  std::vector<int64_t> dims;
  std::vector<char> bytes;
  ONNXTensorElementDataType type;

  explicit Input(const std::string &text) {
    std::istringstream parts(text);
    std::string number, shape, path, dim;
    std::getline(parts, name, ':');
    std::getline(parts, number, ':');
    std::getline(parts, shape, ':');
    std::getline(parts, path);
    type = static_cast<ONNXTensorElementDataType>(std::stoi(number));
    std::istringstream list(shape);
    while (std::getline(list, dim, ',')) {
      if (dim != "s") dims.push_back(std::stoll(dim));
    }
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
};

int main(int argc, char **argv) try {
  if (argc < 3) return 2;
  Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "run");
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(1).SetGraphOptimizationLevel(ORT_ENABLE_ALL);
  options.AddConfigEntry("session.intra_op.allow_spinning", "0");
  Ort::Session session(env, argv[1], options);
  Ort::AllocatorWithDefaultOptions allocator;
  auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  std::vector<Input> inputs(argv + 3, argv + argc);
  Ort::IoBinding binding(session);
  for (auto &input : inputs) {
    binding.BindInput(input.name.c_str(),
                      Ort::Value::CreateTensor(memory, input.bytes.data(), input.bytes.size(),
                                               input.dims.data(), input.dims.size(), input.type));
  }
  for (const auto &name : session.GetOutputNames()) binding.BindOutput(name.c_str(), memory);
  session.Run(Ort::RunOptions{}, binding);
  auto outputs = binding.GetOutputValues();
  for (size_t i = 0; i < outputs.size(); i++) {
    std::ofstream file(std::string(argv[2]) + "/" + std::to_string(i) + ".bin", std::ios::binary);
    file.write(outputs[i].GetTensorData<char>(),
               static_cast<std::streamsize>(outputs[i].GetTensorSizeInBytes()));
  }
  Ort::TypeInfo type = session.GetInputTypeInfo(0);
  if (type.GetTensorTypeAndShapeInfo().GetShape().size() != inputs[0].dims.size()) return 4;
  try {
    Ort::Session none(env, "no such file", options);
    return 5;
  } catch (const Ort::Exception &error) {
    if (error.GetOrtErrorCode() != ORT_NO_SUCHFILE) return 6;
  }
  return 0;
} catch (const Ort::Exception &error) {
  std::cerr << error.GetOrtErrorCode() << ": " << error.what() << "\n";
  return 1;
}
