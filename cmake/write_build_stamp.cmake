# cmake -DSOURCE=… -DOUT=… -DMOELAB_VERSION=… -P write_build_stamp.cmake: hashes every installed
# header and writes moelab_build.h, only when it changes.
file(GLOB_RECURSE headers RELATIVE ${SOURCE} ${SOURCE}/registry/*.h ${SOURCE}/core/*.h)
list(SORT headers)
set(all "")
foreach(header ${headers})
  file(SHA256 ${SOURCE}/${header} hash)
  string(APPEND all "${header} ${hash}\n")
endforeach()
string(SHA256 MOELAB_HEADERS_HASH "${all}")
string(SUBSTRING ${MOELAB_HEADERS_HASH} 0 16 MOELAB_HEADERS_HASH)
configure_file(${SOURCE}/cmake/build_stamp.h.in ${OUT} @ONLY)
