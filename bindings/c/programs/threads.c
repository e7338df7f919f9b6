// Eight threads make, use and release everything on one environment, and check every result.
//
//     threads MODEL SECONDS
//
// MODEL computes `y = Relu(x W + b)` from `x: float[n,8]`, where `W[i][j] = (i + 2 j) % 5 - 2` and `b[j] = j - 4`: whole
// numbers, so that sums are exact in any order.

#include <onnxruntime_c_api.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 8, SIZE = 8, MOST_ROWS = 6 };

static const OrtApi *ort;
static OrtEnv *env;
static OrtSession *shared;
static OrtMemoryInfo *memory;
static OrtAllocator *allocator;
static const char *model;
static time_t end;
static atomic_long n_runs, n_terminated;

// The options of the run of each thread, which the others terminate.
static struct {
  pthread_mutex_t lock;
  OrtRunOptions *options;
} running[THREADS];

static void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static void check(OrtStatus *status) {
  if (status != NULL) fail(ort->GetErrorMessage(status));
}

// A thread's state: its number, the number of its rounds, and its input with the expected output.
typedef struct {
  int thread;
  unsigned round;
  int64_t rows;
  float x[MOST_ROWS * SIZE], y[MOST_ROWS * SIZE];
} State;

static void next_input(State *s) {
  s->rows = 1 + s->round % MOST_ROWS;
  for (int row = 0; row < s->rows; row++) {
    for (int i = 0; i < SIZE; i++) s->x[row * SIZE + i] = (float)((s->thread + s->round + row + i) % 7) - 3;
    for (int j = 0; j < SIZE; j++) {
      float sum = (float)(j - 4);
      for (int i = 0; i < SIZE; i++) sum += s->x[row * SIZE + i] * (float)((i + 2 * j) % 5 - 2);
      s->y[row * SIZE + j] = sum > 0 ? sum : 0;
    }
  }
}

static OrtValue *input(State *s) {
  int64_t shape[2] = {s->rows, SIZE};
  OrtValue *value = NULL;
  check(ort->CreateTensorWithDataAsOrtValue(memory, s->x, sizeof(float) * s->rows * SIZE, shape, 2,
                                            ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
  return value;
}

static OrtValue *empty(State *s) {
  int64_t shape[2] = {s->rows, SIZE};
  OrtValue *value = NULL;
  check(ort->CreateTensorAsOrtValue(allocator, shape, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
  return value;
}

static void expect(State *s, OrtValue *value) {
  OrtTensorTypeAndShapeInfo *info = NULL;
  int64_t shape[2];
  float *data = NULL;
  check(ort->GetTensorTypeAndShape(value, &info));
  check(ort->GetDimensions(info, shape, 2));
  ort->ReleaseTensorTypeAndShapeInfo(info);
  if (shape[0] != s->rows || shape[1] != SIZE) fail("an output has another shape");
  check(ort->GetTensorMutableData(value, (void **)&data));
  if (memcmp(data, s->y, sizeof(float) * s->rows * SIZE) != 0) fail("an output has other elements");
  atomic_fetch_add(&n_runs, 1);
}

static OrtStatus *run(OrtSession *session, const OrtRunOptions *options, OrtValue *x, OrtValue **y) {
  const char *in = "x", *out = "y";
  return ort->Run(session, options, &in, (const OrtValue *const *)&x, 1, &out, 1, y);
}

static void run_shared(State *s) {
  OrtValue *x = input(s), *fresh = NULL, *given = empty(s);
  check(run(shared, NULL, x, &fresh));
  expect(s, fresh);
  check(run(shared, NULL, x, &given));
  expect(s, given);
  ort->ReleaseValue(fresh);
  ort->ReleaseValue(given);
  ort->ReleaseValue(x);
}

static void run_own(State *s) {
  OrtSessionOptions *options = NULL, *copy = NULL;
  OrtSession *session = NULL;
  OrtModelMetadata *metadata = NULL;
  OrtValue *x = input(s), *y = NULL;
  char *name = NULL;
  check(ort->CreateSessionOptions(&options));
  check(ort->SetIntraOpNumThreads(options, 1 + s->round % 3));
  check(ort->AddSessionConfigEntry(options, "session.intra_op.allow_spinning", "0"));
  check(ort->CloneSessionOptions(options, &copy));
  ort->ReleaseSessionOptions(options);
  check(ort->CreateSession(env, model, copy, &session));
  ort->ReleaseSessionOptions(copy);
  check(ort->SessionGetInputName(session, 0, allocator, &name));
  if (strcmp(name, "x") != 0) fail("the input has another name");
  check(ort->AllocatorFree(allocator, name));
  check(ort->SessionGetModelMetadata(session, &metadata));
  ort->ReleaseModelMetadata(metadata);
  check(run(session, NULL, x, &y));
  // Outputs outlive their session.
  ort->ReleaseSession(session);
  expect(s, y);
  ort->ReleaseValue(y);
  ort->ReleaseValue(x);
}

static void run_bound(State *s) {
  OrtIoBinding *binding = NULL;
  OrtValue *x = input(s), *y = empty(s), **found = NULL;
  size_t n = 0;
  check(ort->CreateIoBinding(shared, &binding));
  check(ort->BindInput(binding, "x", x));
  check(ort->BindOutput(binding, "y", y));
  check(ort->RunWithBinding(shared, NULL, binding));
  expect(s, y);
  ort->ClearBoundOutputs(binding);
  check(ort->BindOutputToDevice(binding, "y", memory));
  check(ort->RunWithBinding(shared, NULL, binding));
  check(ort->GetBoundOutputValues(binding, allocator, &found, &n));
  ort->ReleaseIoBinding(binding);
  if (n != 1) fail("a binding has other outputs");
  expect(s, found[0]);
  ort->ReleaseValue(found[0]);
  check(ort->AllocatorFree(allocator, found));
  ort->ReleaseValue(y);
  ort->ReleaseValue(x);
}

// Another thread may terminate the run before, while or after it runs; the last run surely fails.
static void run_terminated(State *s) {
  OrtRunOptions *options = NULL;
  OrtValue *x = input(s), *y = NULL;
  check(ort->CreateRunOptions(&options));
  pthread_mutex_lock(&running[s->thread].lock);
  running[s->thread].options = options;
  pthread_mutex_unlock(&running[s->thread].lock);
  for (int i = 0; i < 20; i++) {
    OrtStatus *status = run(shared, options, x, &y);
    if (status == NULL) {
      expect(s, y);
      ort->ReleaseValue(y);
      y = NULL;
    } else {
      const char *message = ort->GetErrorMessage(status);
      if (strstr(message, "terminate") == NULL && strstr(message, "cancelled") == NULL) check(status);
      ort->ReleaseStatus(status);
      atomic_fetch_add(&n_terminated, 1);
      check(ort->RunOptionsUnsetTerminate(options));
    }
  }
  pthread_mutex_lock(&running[s->thread].lock);
  running[s->thread].options = NULL;
  pthread_mutex_unlock(&running[s->thread].lock);
  check(ort->RunOptionsSetTerminate(options));
  OrtStatus *status = run(shared, options, x, &y);
  if (status == NULL) fail("a terminated run succeeded");
  ort->ReleaseStatus(status);
  ort->ReleaseRunOptions(options);
  ort->ReleaseValue(x);
}

static void terminate_another(State *s) {
  int other = (s->thread + 1 + s->round % (THREADS - 1)) % THREADS;
  pthread_mutex_lock(&running[other].lock);
  if (running[other].options != NULL) check(ort->RunOptionsSetTerminate(running[other].options));
  pthread_mutex_unlock(&running[other].lock);
}

static void strings(void) {
  const char *texts[2] = {"one", "twenty-two"};
  char content[16];
  size_t offsets[2];
  int64_t shape[1] = {2};
  OrtValue *value = NULL;
  check(ort->CreateTensorAsOrtValue(allocator, shape, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, &value));
  check(ort->FillStringTensor(value, texts, 2));
  check(ort->GetStringTensorContent(value, content, 13, offsets, 2));
  if (memcmp(content, "onetwenty-two", 13) != 0 || offsets[1] != 3) fail("a tensor has other strings");
  ort->ReleaseValue(value);
}

static void *work(void *number) {
  State s = {.thread = (int)(intptr_t)number};
  for (; time(NULL) < end; s.round++) {
    next_input(&s);
    run_shared(&s);
    run_bound(&s);
    terminate_another(&s);
    strings();
    if (s.round % 4 == 0) run_terminated(&s);
    if (s.round % 8 == 0) run_own(&s);
  }
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 3) fail("threads MODEL SECONDS");
  model = argv[1];
  end = time(NULL) + atol(argv[2]);
  ort = OrtGetApiBase()->GetApi(ORT_API_VERSION);
  check(ort->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "threads", &env));
  check(ort->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));
  check(ort->GetAllocatorWithDefaultOptions(&allocator));
  OrtSessionOptions *options = NULL;
  check(ort->CreateSessionOptions(&options));
  check(ort->CreateSession(env, model, options, &shared));
  ort->ReleaseSessionOptions(options);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) pthread_mutex_init(&running[i].lock, NULL);
  for (int i = 0; i < THREADS; i++) {
    if (pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i) != 0) fail("no thread");
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  ort->ReleaseSession(shared);
  ort->ReleaseMemoryInfo(memory);
  ort->ReleaseEnv(env);
  printf("%ld runs, %ld terminated by another thread\n", atomic_load(&n_runs), atomic_load(&n_terminated));
  return 0;
}
