// A library of custom operators: `test.c:Scale`, y = factor * x.

#include <onnxruntime_c_api.h>
#include <stdlib.h>

static const OrtApi *ort;

typedef struct {
  float factor;
} Kernel;

#define TRY(call)                         \
  do {                                    \
    OrtStatus *failed = (call);           \
    if (failed != NULL) return failed;    \
  } while (0)

static OrtStatusPtr create(const OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *info, void **kernel) {
  (void)op;
  float factor = 0;
  TRY(api->KernelInfoGetAttribute_float(info, "factor", &factor));
  Kernel *made = malloc(sizeof *made);
  made->factor = factor;
  *kernel = made;
  return NULL;
}

static OrtStatusPtr compute(void *kernel, OrtKernelContext *context) {
  const OrtValue *x = NULL;
  OrtValue *y = NULL;
  OrtTensorTypeAndShapeInfo *info = NULL;
  int64_t dims[8];
  size_t rank = 0, n = 0;
  void *from = NULL, *to = NULL;
  TRY(ort->KernelContext_GetInput(context, 0, &x));
  TRY(ort->GetTensorTypeAndShape(x, &info));
  TRY(ort->GetDimensionsCount(info, &rank));
  TRY(ort->GetDimensions(info, dims, rank));
  TRY(ort->GetTensorShapeElementCount(info, &n));
  ort->ReleaseTensorTypeAndShapeInfo(info);
  TRY(ort->KernelContext_GetOutput(context, 0, dims, rank, &y));
  TRY(ort->GetTensorMutableData((OrtValue *)x, &from));
  TRY(ort->GetTensorMutableData(y, &to));
  for (size_t i = 0; i < n; i++) ((float *)to)[i] = ((Kernel *)kernel)->factor * ((float *)from)[i];
  return NULL;
}

static const char *name(const OrtCustomOp *op) { (void)op; return "Scale"; }
static const char *provider(const OrtCustomOp *op) { (void)op; return NULL; }
static size_t one(const OrtCustomOp *op) { (void)op; return 1; }
static ONNXTensorElementDataType type(const OrtCustomOp *op, size_t index) {
  (void)op, (void)index;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}
static OrtCustomOpInputOutputCharacteristic required(const OrtCustomOp *op, size_t index) {
  (void)op, (void)index;
  return INPUT_OUTPUT_REQUIRED;
}

static const OrtCustomOp scale = {
    .version = ORT_API_VERSION,
    .GetName = name,
    .GetExecutionProviderType = provider,
    .GetInputType = type,
    .GetInputTypeCount = one,
    .GetOutputType = type,
    .GetOutputTypeCount = one,
    .KernelDestroy = free,
    .GetInputCharacteristic = required,
    .GetOutputCharacteristic = required,
    .CreateKernelV2 = create,
    .KernelComputeV2 = compute,
};

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
  static OrtCustomOpDomain *domain = NULL;
  ort = base->GetApi(ORT_API_VERSION);
  if (domain == NULL) {
    TRY(ort->CreateCustomOpDomain("test.c", &domain));
    TRY(ort->CustomOpDomain_Add(domain, &scale));
  }
  return ort->AddCustomOpDomain(options, domain);
}
