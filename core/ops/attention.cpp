// Rows of queries go in tiles of a few; the scores of a tile against all earlier keys stay in the
// nearest cache, so that no online softmax is needed and memory is linear in L: per work item, the
// packed keys and values of one head and the scores of one block of queries. D' and L' are D and L
// rounded up to whole vectors; padding is zero.
#include "core/ops/attention.h"

#include <algorithm>
#include <cmath>

#include "core/base/threads.h"
#include "core/ops/math.k.h"
#include "core/ops/simd_product.h"
#include "core/ops/worker_scratch.h"

namespace moelab {
namespace {

using simd::kTileRows;
using simd::Left;
using simd::round_up;

constexpr Index kQueryBlock = 4 * kTileRows;  // queries whose scores backward keeps at once

template <class T>
class Scratch {  // hands out pieces of a worker's memory
 public:
  explicit Scratch(T* memory) : next_(memory) {}
  T* take(Index elements) {
    T* piece = next_;
    next_ += elements;
    return piece;
  }

 private:
  T* next_;
};

// Asks for the head's columns of rows that will be needed soon: their stride defeats the
// processor's own prediction.
template <bool kWrite, class T>
void prefetch(Index rows, Index width, const T* from, Index stride) {
  constexpr Index kLine = 64 / static_cast<Index>(sizeof(T));
  for (Index r = 0; r < rows; ++r)
    for (Index d = 0; d < width; d += kLine) __builtin_prefetch(from + r * stride + d, kWrite);
}

// The head's columns of L rows as a dense [L, D'].
template <class T>
void pack_rows(Index length, Index width, const T* from, Index stride, T* to) {
  const Index padded = round_up<T>(width);
  for (Index t = 0; t < length; ++t, from += stride, to += padded) {
    std::copy_n(from, width, to);
    std::fill(to + width, to + padded, T(0));
  }
}

// The same, transposed: [D, L'].
template <class T>
void pack_columns(Index length, Index width, const T* from, Index stride, T* to) {
  const Index padded = round_up<T>(length);
  for (Index d = 0; d < width; ++d)
    std::fill(to + d * padded + length, to + (d + 1) * padded, T(0));
  simd::transpose(length, width, from, stride, to, padded);
}

// What token i of a row sees: [first(i), i], less the tokens of other documents in between where
// documents of a row are not contiguous.
struct Sight {
  const std::int32_t* first_L = nullptr;     // null: 0
  const std::int32_t* document_L = nullptr;  // null: no others in between
  Index first(Index i) const { return first_L ? first_L[i] : 0; }
};

class Sights {  // of all rows
 public:
  Sights(const Backend& backend, Index batch, Index length, const std::int32_t* document)
      : length_(length), document_(document) {
    if (!document) return;
    first_ = backend.empty(DType::i32, {batch, length});
    mixed_ = backend.zeros(DType::u8, {batch});
    parallel_ranges(batch, 16, [&](Index begin, Index end) {
      for (Index b = begin; b < end; ++b) fill_row(b);
    });
  }
  Sight row(Index b) const {
    if (!document_) return {};
    return {first_.data<std::int32_t>() + b * length_,
            mixed_.data<std::uint8_t>()[b] ? document_ + b * length_ : nullptr};
  }

 private:
  void fill_row(Index b) {
    const std::int32_t* document = document_ + b * length_;
    std::int32_t* first = first_.data<std::int32_t>() + b * length_;
    first[0] = 0;
    for (Index i = 1; i < length_; ++i) {
      first[i] = first[i - 1];
      if (document[i] == document[i - 1]) continue;
      const auto at = std::find(document, document + i, document[i]) - document;
      first[i] = static_cast<std::int32_t>(at);
      if (at < i) mixed_.data<std::uint8_t>()[b] = 1;
    }
  }
  Index length_;
  const std::int32_t* document_;
  Tensor first_, mixed_;
};

// −∞ for what row i does not see of the columns [begin, end). Both are whole vectors, so that the
// passes after it need no remainder loops.
template <class T>
void mask(const Sight& sight, Index i, Index begin, Index end, T* s) {
  constexpr T kNothing = -std::numeric_limits<T>::infinity();
  const Index first = sight.first(i);
  std::fill(s + begin, s + first, kNothing);
  std::fill(s + i + 1, s + end, kNothing);
  if (!sight.document_L) return;
  for (Index j = first; j < i; ++j)
    if (sight.document_L[j] != sight.document_L[i]) s[j] = kNothing;
}

// s[j] ← exp(scale·s[j] − shift). Returns their sum.
template <class T>
T exponentials(Index begin, Index end, T scale, T shift, T* s) {
  T sum = T(0);
#pragma omp simd reduction(+ : sum)
  for (Index j = begin; j < end; ++j) {
    s[j] = cpu_kernels::fast_exp(scale * s[j] - shift);
    sum += s[j];
  }
  return sum;
}

// The first column that rows [i0, i1) see, at a whole vector.
template <class T>
Index first_column(const Sight& sight, Index i0, Index i1) {
  Index first = i0;
  for (Index i = i0; i < i1 && first > 0; ++i) first = std::min(first, sight.first(i));
  return first / simd::kLanes<T> * simd::kLanes<T>;
}

// Scores of queries [i0, i0 + rows) → exp(scale·s − largest), their sums and the logs of the whole
// denominators. Pass after pass over all rows: within one row each pass waits for the one before.
template <class T>
void softmax_rows(const Sight& sight, Index i0, Index rows, Index begin, Index end, T scale, T* p,
                  Index stride, T* lse, Index lse_stride, T* sum) {
  T shift[kTileRows];
  for (Index r = 0; r < rows; ++r) {
    const Index seen = round_up<T>(i0 + r + 1);
    mask(sight, i0 + r, begin, seen, p + r * stride);
    std::fill(p + r * stride + seen, p + r * stride + end, T(0));
  }
  for (Index r = 0; r < rows; ++r)
    shift[r] = scale * simd::largest(round_up<T>(i0 + r + 1) - begin, p + r * stride + begin);
  for (Index r = 0; r < rows; ++r)
    sum[r] = exponentials(begin, round_up<T>(i0 + r + 1), scale, shift[r], p + r * stride);
  for (Index r = 0; r < rows; ++r) lse[r * lse_stride] = shift[r] + std::log(sum[r]);
}

template <class T>
Index forward_scratch(Index L, Index D) {
  const Index lp = round_up<T>(L), dp = round_up<T>(D);
  return D * lp + L * dp + kTileRows * (lp + dp);
}

template <class T>
void forward_head(const AttentionArgs<T>& args, const Sight& sight, Index b, Index head,
                  Scratch<T> scratch, T* o, T* lse) {
  const Index L = args.length, D = args.head_dim, lp = round_up<T>(L), dp = round_up<T>(D);
  const Index q_stride = args.heads * D, kv_stride = args.kv_heads * D;
  const Index kv = head / (args.heads / args.kv_heads);
  T* k_DL = scratch.take(D * lp);
  T* v_LD = scratch.take(L * dp);
  T* p = scratch.take(kTileRows * lp);
  T* out = scratch.take(kTileRows * dp);
  pack_columns(L, D, args.k + b * L * kv_stride + kv * D, kv_stride, k_DL);
  pack_rows(L, D, args.v + b * L * kv_stride + kv * D, kv_stride, v_LD);
  const T* q = args.q + b * L * q_stride + head * D;
  for (Index i0 = 0; i0 < L; i0 += kTileRows) {
    const Index rows = std::min(kTileRows, L - i0), i1 = i0 + rows, end = round_up<T>(i1);
    const Index begin = first_column<T>(sight, i0, i1);
    prefetch<false>(std::min(kTileRows, L - i1), D, q + i1 * q_stride, q_stride);
    prefetch<true>(rows, D, o + (b * L + i0) * q_stride + head * D, q_stride);
    simd::row_tile_product<Left::rows>(rows, end - begin, D, q + i0 * q_stride, q_stride,
                                       k_DL + begin, lp, p + begin, lp, false);
    T sum[kTileRows];
    softmax_rows(sight, i0, rows, begin, end, args.scale, p, lp,
                 lse + (b * L + i0) * args.heads + head, args.heads, sum);
    simd::row_tile_product<Left::rows>(rows, dp, i1 - begin, p + begin, lp, v_LD + begin * dp, dp,
                                       out, dp, false);
    for (Index r = 0; r < rows; ++r) {
      T* to = o + (b * L + i0 + r) * q_stride + head * D;
      const T share = T(1) / sum[r];
      for (Index d = 0; d < D; ++d) to[d] = out[r * dp + d] * share;
    }
  }
}

// Backward of one key/value head and its query heads.
template <class T>
class BackwardHead {
 public:
  static Index scratch(Index length, Index head_dim) {
    const Index lp = round_up<T>(length), dp = round_up<T>(head_dim);
    return 2 * head_dim * lp + 5 * length * dp + 2 * kQueryBlock * lp + kTileRows * dp;
  }
  BackwardHead(const AttentionArgs<T>& args, const Sight& sight, Index b, Index kv,
               Scratch<T> scratch)
      : args_(args), b_(b), kv_(kv), scratch_(scratch), sight_(sight) {
    const Index stride = args.kv_heads * D, at = b * L * stride + kv * D;
    pack_columns(L, D, args.k + at, stride, k_DL);
    pack_columns(L, D, args.v + at, stride, v_DL);
    pack_rows(L, D, args.k + at, stride, k_LD);
    std::fill_n(dk_LD, L * dp, T(0));
    std::fill_n(dv_LD, L * dp, T(0));
  }

  void run(const T* o, const T* lse, const T* do_, const AttentionGrads<T>& grads) {
    const Index group = args_.heads / args_.kv_heads, q_stride = args_.heads * D;
    for (Index head = kv_ * group; head < (kv_ + 1) * group; ++head) {
      const Index at = b_ * L * q_stride + head * D;
      pack_rows(L, D, args_.q + at, q_stride, q_LD);
      pack_rows(L, D, do_ + at, q_stride, do_LD);
      for (Index i0 = 0; i0 < L; i0 += kQueryBlock)
        block(head, i0, std::min(L, i0 + kQueryBlock), o + at, lse, grads);
    }
    const Index stride = args_.kv_heads * D, at = b_ * L * stride + kv_ * D;
    unpack(dk_LD, L, args_.scale, grads.dk + at, stride, grads.add_k);
    unpack(dv_LD, L, T(1), grads.dv + at, stride, grads.add_v);
  }

 private:
  // p and ds of queries [i0, i1), then their share of dq, dk and dv.
  void block(Index head, Index i0, Index i1, const T* o, const T* lse,
             const AttentionGrads<T>& grads) {
    const Index q_stride = args_.heads * D;
    const Index begin = first_column<T>(sight_, i0, i1), block_end = round_up<T>(i1);
    for (Index i = i0; i < i1; i += kTileRows) {
      const Index rows = std::min(kTileRows, i1 - i), last = i + rows, end = round_up<T>(last);
      T* p = p_ + (i - i0) * lp;
      T* ds = ds_ + (i - i0) * lp;
      simd::row_tile_product<Left::rows>(rows, end - begin, D, q_LD + i * dp, dp, k_DL + begin, lp,
                                         p + begin, lp, false);
      simd::row_tile_product<Left::rows>(rows, end - begin, D, do_LD + i * dp, dp, v_DL + begin, lp,
                                         ds + begin, lp, false);
      T delta[kTileRows];
      for (Index r = 0; r < rows; ++r)
        delta[r] = simd::dot(D, o + (i + r) * q_stride, do_LD + (i + r) * dp);
      for (Index r = 0; r < rows; ++r) {
        T* row_p = p + r * lp;
        const Index seen = round_up<T>(i + r + 1);
        mask(sight_, i + r, begin, seen, row_p);
        exponentials(begin, seen, args_.scale, lse[(b_ * L + i + r) * args_.heads + head], row_p);
        std::fill(row_p + seen, row_p + block_end, T(0));
      }
      for (Index r = 0; r < rows; ++r) {
        const T* row_p = p + r * lp;
        T* row_ds = ds + r * lp;
        const Index seen = round_up<T>(i + r + 1);
#pragma omp simd
        for (Index j = begin; j < seen; ++j) row_ds[j] = row_p[j] * (row_ds[j] - delta[r]);
        std::fill(row_ds + seen, row_ds + block_end, T(0));
      }
      simd::row_tile_product<Left::rows>(rows, dp, last - begin, ds + begin, lp, k_LD + begin * dp,
                                         dp, dq_, dp, false);
      unpack(dq_, rows, args_.scale, grads.dq + (b_ * L + i) * q_stride + head * D, q_stride,
             grads.add_q);
    }
    // Keys [j, j + rows) are seen by the queries from max(i0, j) on.
    for (Index j = begin; j < i1; j += kTileRows) {
      const Index rows = std::min(kTileRows, i1 - j);
      const Index from = std::max(i0, j), skip = (from - i0) * lp + j;
      simd::row_tile_product<Left::transposed>(rows, dp, i1 - from, p_ + skip, lp,
                                               do_LD + from * dp, dp, dv_LD + j * dp, dp, true);
      simd::row_tile_product<Left::transposed>(rows, dp, i1 - from, ds_ + skip, lp,
                                               q_LD + from * dp, dp, dk_LD + j * dp, dp, true);
    }
  }

  void unpack(const T* from, Index rows, T factor, T* to, Index stride, bool add) const {
    for (Index r = 0; r < rows; ++r, from += dp, to += stride)
      for (Index d = 0; d < D; ++d) to[d] = (add ? to[d] : T(0)) + factor * from[d];
  }

  const AttentionArgs<T>& args_;
  const Index b_, kv_;
  const Index L = args_.length, D = args_.head_dim, lp = round_up<T>(L), dp = round_up<T>(D);
  Scratch<T> scratch_;
  const Sight sight_;
  T* const k_DL = scratch_.take(D * lp);
  T* const v_DL = scratch_.take(D * lp);
  T* const k_LD = scratch_.take(L * dp);
  T* const q_LD = scratch_.take(L * dp);
  T* const do_LD = scratch_.take(L * dp);
  T* const dk_LD = scratch_.take(L * dp);
  T* const dv_LD = scratch_.take(L * dp);
  T* const p_ = scratch_.take(kQueryBlock * lp);
  T* const ds_ = scratch_.take(kQueryBlock * lp);
  T* const dq_ = scratch_.take(kTileRows * dp);
};

}  // namespace

template <class T>
void attention_forward(const Backend& backend, const AttentionArgs<T>& args, T* o, T* lse) {
  const Sights sights(backend, args.batch, args.length, args.document);
  const WorkerScratch<T> space(backend, forward_scratch<T>(args.length, args.head_dim));
  parallel_items(args.batch * args.heads, [&](Index i, int worker) {
    const Index b = i / args.heads;
    forward_head(args, sights.row(b), b, i % args.heads, Scratch<T>(space.of(worker)), o, lse);
  });
}

template <class T>
void attention_backward(const Backend& backend, const AttentionArgs<T>& args, const T* o,
                        const T* lse, const T* do_, const AttentionGrads<T>& grads) {
  const Sights sights(backend, args.batch, args.length, args.document);
  const WorkerScratch<T> space(backend, BackwardHead<T>::scratch(args.length, args.head_dim));
  parallel_items(args.batch * args.kv_heads, [&](Index i, int worker) {
    const Index b = i / args.kv_heads;
    BackwardHead<T>(args, sights.row(b), b, i % args.kv_heads, Scratch<T>(space.of(worker)))
        .run(o, lse, do_, grads);
  });
}

template void attention_forward<float>(const Backend&, const AttentionArgs<float>&, float*, float*);
template void attention_forward<double>(const Backend&, const AttentionArgs<double>&, double*,
                                        double*);
template void attention_backward<float>(const Backend&, const AttentionArgs<float>&, const float*,
                                        const float*, const float*, const AttentionGrads<float>&);
template void attention_backward<double>(const Backend&, const AttentionArgs<double>&,
                                         const double*, const double*, const double*,
                                         const AttentionGrads<double>&);

}  // namespace moelab
