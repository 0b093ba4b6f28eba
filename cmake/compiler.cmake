# Flags that every target of ours is compiled with.
# -ffp-contract=off: dequantised values and the reference must not depend on whether a compiler fuses a multiply and an add.
add_library(kvlab_flags INTERFACE)
target_include_directories(kvlab_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(kvlab_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Werror;-ffp-contract=off>)

if(KVLAB_SANITIZE)
  target_compile_options(kvlab_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=address,undefined;-fno-sanitize-recover=all;-fno-omit-frame-pointer>)
  target_link_options(kvlab_flags INTERFACE -fsanitize=address,undefined)
  target_compile_definitions(kvlab_flags INTERFACE KVLAB_ADDRESS_SANITIZER)
endif()
if(KVLAB_SANITIZE_THREADS)
  # A target that runs code for others, the emulator, opts out with the property KVLAB_UNSANITIZED_THREADS.
  target_compile_options(kvlab_flags INTERFACE
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<BOOL:$<TARGET_PROPERTY:KVLAB_UNSANITIZED_THREADS>>>>:-fsanitize=thread>)
  target_link_options(kvlab_flags INTERFACE -fsanitize=thread)
  target_compile_definitions(kvlab_flags INTERFACE KVLAB_THREAD_SANITIZER)
endif()
