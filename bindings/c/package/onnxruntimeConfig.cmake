# find_package(onnxruntime): the target onnxruntime::onnxruntime, as that of ONNX Runtime's own package.

get_filename_component(_onnxruntime_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET onnxruntime::onnxruntime)
  add_library(onnxruntime::onnxruntime SHARED IMPORTED)
  set_target_properties(onnxruntime::onnxruntime PROPERTIES
    IMPORTED_LOCATION "${_onnxruntime_prefix}/lib/libonnxruntime.so.1"
    IMPORTED_SONAME "libonnxruntime.so.1"
    INTERFACE_INCLUDE_DIRECTORIES "${_onnxruntime_prefix}/include")
endif()
unset(_onnxruntime_prefix)
