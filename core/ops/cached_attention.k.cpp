#include "core/ops/cached_attention.k.h"

#include <cmath>

namespace moelab::MOELAB_KERNELS {

template <class T>
void cached_attention(const CachedAttention<T>& args) {
  const CachedAttention<T> a = args;
  const Index group = a.heads / a.kv_heads, width = a.kv_heads * a.head_dim;
  for_each_row(a.rows * a.count * a.heads, (a.length + a.count) * a.head_dim,
               [=] MOELAB_HD(Team team, Index item) {
                 const Index head = item % a.heads, t = item / a.heads;
                 const Index row = t / a.count, seen = a.length + t % a.count + 1;
                 const Index base = row * a.capacity * width + head / group * a.head_dim;
                 const T* q = a.q + (t * a.heads + head) * a.head_dim;
                 T* o = a.o + (t * a.heads + head) * a.head_dim;
                 T* p = a.score + item * a.capacity;
                 for (Index s = 0; s < seen; ++s) {
                   const T* k = a.k + base + s * width;
                   p[s] =
                       a.scale * team.sum(a.head_dim, T(0), [=](Index d) { return q[d] * k[d]; });
                 }
                 const T most = team.max(seen, p[0], [=](Index s) { return p[s]; });
                 team.each(seen, [=](Index s) { p[s] = std::exp(p[s] - most); });
                 const T total = team.sum(seen, T(0), [=](Index s) { return p[s]; });
                 team.each(a.head_dim, [=](Index d) {
                   T sum = T(0);
                   for (Index s = 0; s < seen; ++s) sum += p[s] * a.v[base + s * width + d];
                   o[d] = sum / total;
                 });
               });
}

template void cached_attention<float>(const CachedAttention<float>&);
template void cached_attention<double>(const CachedAttention<double>&);

}  // namespace moelab::MOELAB_KERNELS
