// Runs a model through the C API.
//
//     run MODEL FOLDER NAME:TYPE:DIMS:FILE...
//
// Each input is a name, ONNX's number of its element type, dimensions as in `1,3,48`, and a file of its elements.
// Output i is written to FOLDER/i.bin.

#include <onnxruntime_c_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const OrtApi *ort;

static void check(OrtStatus *status) {
  if (status == NULL) return;
  fprintf(stderr, "%d: %s\n", (int)ort->GetErrorCode(status), ort->GetErrorMessage(status));
  ort->ReleaseStatus(status);
  exit(1);
}

static void *contents(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) exit(2);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  void *bytes = malloc(*size + 1);
  if (fread(bytes, 1, *size, file) != *size) exit(2);
  fclose(file);
  return bytes;
}

static OrtValue *input(char *text, const OrtMemoryInfo *memory, const char **name) {
  int64_t dims[8];
  size_t rank = 0, size;
  *name = strtok(text, ":");
  int type = atoi(strtok(NULL, ":"));
  char *shape = strtok(NULL, ":"), *path = strtok(NULL, ":"), *rest = NULL;
  for (char *dim = strtok_r(shape, ",", &rest); dim; dim = strtok_r(NULL, ",", &rest)) {
    if (strcmp(dim, "s") != 0) dims[rank++] = atoll(dim);
  }
  void *bytes = contents(path, &size);
  OrtValue *value = NULL;
  check(ort->CreateTensorWithDataAsOrtValue(memory, bytes, size, dims, rank,
                                            (ONNXTensorElementDataType)type, &value));
  return value;
}

static void write_output(const OrtValue *value, const char *folder, size_t index) {
  OrtTensorTypeAndShapeInfo *info = NULL;
  ONNXTensorElementDataType type;
  size_t n = 0;
  void *data = NULL;
  check(ort->GetTensorTypeAndShape(value, &info));
  check(ort->GetTensorElementType(info, &type));
  check(ort->GetTensorShapeElementCount(info, &n));
  check(ort->GetTensorMutableData((OrtValue *)value, &data));
  ort->ReleaseTensorTypeAndShapeInfo(info);
  size_t width = type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 ? 8 : 4;
  char path[4096];
  snprintf(path, sizeof path, "%s/%zu.bin", folder, index);
  FILE *file = fopen(path, "wb");
  if (file == NULL || fwrite(data, width, n, file) != n) exit(2);
  fclose(file);
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  ort = OrtGetApiBase()->GetApi(ORT_API_VERSION);
  if (ort == NULL) return 3;
  OrtEnv *env = NULL;
  OrtSessionOptions *options = NULL;
  OrtSession *session = NULL;
  OrtMemoryInfo *memory = NULL;
  OrtAllocator *allocator = NULL;
  check(ort->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "run", &env));
  check(ort->CreateSessionOptions(&options));
  check(ort->SetIntraOpNumThreads(options, 1));
  check(ort->CreateSession(env, argv[1], options, &session));
  check(ort->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));
  check(ort->GetAllocatorWithDefaultOptions(&allocator));

  size_t n_inputs = (size_t)argc - 3, n_outputs = 0;
  const char *names[16];
  const OrtValue *inputs[16];
  if (n_inputs > 16) return 2;
  for (size_t i = 0; i < n_inputs; i++) inputs[i] = input(argv[i + 3], memory, &names[i]);

  char *output_names[16];
  OrtValue *outputs[16] = {0};
  check(ort->SessionGetOutputCount(session, &n_outputs));
  if (n_outputs > 16) return 2;
  for (size_t i = 0; i < n_outputs; i++) {
    check(ort->SessionGetOutputName(session, i, allocator, &output_names[i]));
  }
  check(ort->Run(session, NULL, names, inputs, n_inputs, (const char *const *)output_names,
                 n_outputs, outputs));
  for (size_t i = 0; i < n_outputs; i++) {
    write_output(outputs[i], argv[2], i);
    ort->ReleaseValue(outputs[i]);
    check(ort->AllocatorFree(allocator, output_names[i]));
  }
  for (size_t i = 0; i < n_inputs; i++) {
    void *bytes = NULL;
    check(ort->GetTensorMutableData((OrtValue *)inputs[i], &bytes));
    ort->ReleaseValue((OrtValue *)inputs[i]);
    free(bytes);
  }

  // A failure is a status, not an abort.
  OrtStatus *status = ort->CreateSession(env, "no such file", options, &session);
  if (status == NULL || ort->GetErrorCode(status) != ORT_NO_SUCHFILE) return 4;
  ort->ReleaseStatus(status);
  ort->ReleaseMemoryInfo(memory);
  ort->ReleaseSession(session);
  ort->ReleaseSessionOptions(options);
  ort->ReleaseEnv(env);
  return 0;
}
