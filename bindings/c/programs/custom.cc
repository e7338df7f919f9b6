// Runs a model with custom operators: one of a library in C, and three of the C++ wrapper.
//
//     custom MODEL LIBRARY
//
// The model computes y = -double(positive(2 * x)), and fails for x[0] = 100.

#include <onnxruntime_cxx_api.h>
#include <onnxruntime_lite_custom_op.h>

#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

static int alive = 0;

// The positive elements. Their number is known only afterwards.
struct PositiveKernel {
  PositiveKernel(const OrtApi &, const OrtKernelInfo *info) {
    Ort::ConstKernelInfo node{info};
    if (node.GetInputCount() != 1 || node.GetInputName(0) != "scaled") throw std::runtime_error("the node");
    alive++;
  }
  ~PositiveKernel() { alive--; }

  OrtStatusPtr ComputeV2(OrtKernelContext *context) {
    Ort::KernelContext kernel{context};
    auto x = kernel.GetInput(0);
    size_t n = x.GetTensorTypeAndShapeInfo().GetElementCount();
    const float *from = x.GetTensorData<float>();
    if (n > 0 && from[0] == 200) return Ort::GetApi().CreateStatus(ORT_INVALID_ARGUMENT, "200 is refused");
    std::vector<float> found;
    for (size_t i = 0; i < n; i++) {
      if (from[i] > 0) found.push_back(from[i]);
    }
    auto y = kernel.GetOutput(0, {static_cast<int64_t>(found.size())});
    std::memcpy(y.GetTensorMutableData<float>(), found.data(), found.size() * sizeof(float));
    return nullptr;
  }
};

struct Positive : Ort::CustomOpBase<Positive, PositiveKernel, true> {
  OrtStatusPtr CreateKernelV2(const OrtApi &api, const OrtKernelInfo *info, void **kernel) const {
    *kernel = new PositiveKernel(api, info);
    return nullptr;
  }
  const char *GetName() const { return "Positive"; }
  size_t GetInputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetInputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
};

// y = -x, computed by the library's own operator.
struct MinusKernel {
  MinusKernel(const OrtApi &, const OrtKernelInfo *info) {
    const char *name = "T";
    ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    neg = Ort::Op::Create(info, "Neg", "", 13, &name, &type, 1, nullptr, 0, 1, 1);
  }

  void Compute(OrtKernelContext *context) {
    Ort::KernelContext kernel{context};
    auto x = kernel.GetInput(0);
    auto y = kernel.GetOutput(0, x.GetTensorTypeAndShapeInfo().GetShape());
    const OrtValue *inputs[] = {x};
    OrtValue *outputs[] = {y};
    neg.Invoke(context, inputs, 1, outputs, 1);
  }

  Ort::Op neg{nullptr};
};

struct Minus : Ort::CustomOpBase<Minus, MinusKernel> {
  void *CreateKernel(const OrtApi &api, const OrtKernelInfo *info) const { return new MinusKernel(api, info); }
  const char *GetName() const { return "Minus"; }
  size_t GetInputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetInputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
  static OrtStatusPtr InferOutputShape(Ort::ShapeInferContext &context) {
    context.SetOutputShape(0, context.GetInputShape(0));
    return nullptr;
  }
};

static void twice(const Ort::Custom::Tensor<float> &x, Ort::Custom::Tensor<float> &y) {
  float *to = y.Allocate(x.Shape());
  for (int64_t i = 0; i < x.NumberOfElement(); i++) to[i] = 2 * x.Data()[i];
}

int main(int argc, char **argv) try {
  if (argc < 3) return 2;
  Ort::Env env(ORT_LOGGING_LEVEL_FATAL, "custom");
  Positive positive;
  Minus minus;
  std::unique_ptr<Ort::Custom::OrtLiteCustomOp> lite{
      Ort::Custom::CreateLiteCustomOp("Twice", "CPUExecutionProvider", twice)};
  Ort::CustomOpDomain domain("test.cpp");
  domain.Add(&positive);
  domain.Add(&minus);
  domain.Add(lite.get());
  {
    Ort::SessionOptions options;
    options.RegisterCustomOpsLibrary(argv[2]);
    options.Add(domain);
    Ort::Session session(env, argv[1], options);
    if (alive != 1) return 3;
    auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    const char *input = "x", *output = "y";
    auto run = [&](std::vector<float> x) {
      int64_t n = static_cast<int64_t>(x.size());
      auto value = Ort::Value::CreateTensor<float>(memory, x.data(), x.size(), &n, 1);
      auto outputs = session.Run(Ort::RunOptions{}, &input, &value, 1, &output, 1);
      const float *y = outputs[0].GetTensorData<float>();
      return std::vector<float>(y, y + outputs[0].GetTensorTypeAndShapeInfo().GetElementCount());
    };
    if (run({1, -2, 3}) != std::vector<float>{-4, -12}) return 4;
    if (run({-1}) != std::vector<float>{}) return 5;
    try {
      run({100});
      return 6;
    } catch (const Ort::Exception &error) {
      std::string text = error.what();
      if (text.find("200 is refused") == std::string::npos || text.find("the positive one") == std::string::npos) {
        std::cerr << text << "\n";
        return 7;
      }
    }
  }
  if (alive != 0) return 8;
  // Without the library, its operator is unknown.
  try {
    Ort::SessionOptions options;
    options.Add(domain);
    Ort::Session session(env, argv[1], options);
    return 9;
  } catch (const Ort::Exception &) {
  }
  return 0;
} catch (const std::exception &error) {
  std::cerr << error.what() << "\n";
  return 1;
}
