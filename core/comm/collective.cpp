#include "core/comm/collective.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string_view>

namespace moelab {
namespace {

constexpr std::size_t kBlock = 512;  // elements reduced at a time: stays in the first-level cache

std::string_view name_of(Call::Kind kind) {
  constexpr std::array<std::string_view, 6> names{"all_reduce",   "all_gather", "reduce_scatter",
                                                  "all_to_all_v", "broadcast",  "barrier"};
  return names[static_cast<std::size_t>(kind)];
}

std::string list(const std::vector<Index>& counts) {
  std::string out;
  for (const Index n : counts) out += (out.empty() ? "" : ",") + std::to_string(n);
  return out;
}

std::size_t row_bytes(const Tensor& t) {
  std::size_t bytes = size_of(t.dtype());
  for (int axis = 1; axis < t.rank(); ++axis) bytes *= static_cast<std::size_t>(t.size(axis));
  return bytes;
}

bool same_row(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.rank() >= 1 && b.rank() >= 1 && row_bytes(a) == row_bytes(b);
}

void copy_bytes(const std::byte* from, std::byte* to, std::size_t bytes) {
  if (bytes > 0 && from != to) std::memmove(to, from, bytes);
}

template <class F>
void dispatch_reducible(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::i64:
      return f(std::int64_t{});
    default:
      MOELAB_CHECK(false, "cannot reduce ", moelab::name_of(dtype));
  }
}

// Reduces elements [begin, end) over `from` in order; each block goes to every place in `to`. The
// sums are formed aside, so that `to` may name the same memory as `from`.
template <class T>
void reduce(std::span<const T* const> from, std::span<T* const> to, std::size_t begin,
            std::size_t end, Reduce op) {
  std::array<T, kBlock> total;
  for (std::size_t at = begin; at < end; at += kBlock) {
    const std::size_t n = std::min(kBlock, end - at);
    std::copy_n(from[0] + at, n, total.data());
    for (const T* const source : from.subspan(1)) {
      if (op == Reduce::sum) {
        for (std::size_t i = 0; i < n; ++i) total[i] = static_cast<T>(total[i] + source[at + i]);
      } else {
        for (std::size_t i = 0; i < n; ++i) total[i] = std::max(total[i], source[at + i]);
      }
    }
    for (T* const target : to) std::copy_n(total.data(), n, target + at);
  }
}

void all_reduce(std::span<const Call> calls, std::size_t me) {
  dispatch_reducible(calls[me].in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::vector<const T*> from;
    std::vector<T*> to;
    for (const Call& call : calls) {
      from.push_back(call.in.data<T>());
      to.push_back(call.out.data<T>());
    }
    const auto n = static_cast<std::size_t>(calls[me].in.numel());
    reduce<T>(from, to, n * me / calls.size(), n * (me + 1) / calls.size(), calls[me].op);
  });
}

void reduce_scatter(std::span<const Call> calls, std::size_t me) {
  dispatch_reducible(calls[me].in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto n = static_cast<std::size_t>(calls[me].out.numel());
    std::vector<const T*> from;
    for (const Call& call : calls) from.push_back(call.in.data<T>() + n * me);
    T* const to[] = {calls[me].out.data<T>()};
    reduce<T>(from, to, 0, n, Reduce::sum);
  });
}

void all_gather(std::span<const Call> calls, std::size_t me) {
  std::byte* to = calls[me].out.raw();
  for (const Call& call : calls) {
    copy_bytes(call.in.raw(), to, call.in.bytes());
    to += call.in.bytes();
  }
}

void all_to_all_v(std::span<const Call> calls, std::size_t me) {
  std::byte* to = calls[me].out.raw();
  const std::size_t row = row_bytes(calls[me].out);
  for (const Call& call : calls) {
    const auto first = call.send_counts.begin();
    const Index skip = std::accumulate(first, first + static_cast<std::ptrdiff_t>(me), Index{0});
    const std::size_t bytes = static_cast<std::size_t>(call.send_counts[me]) * row;
    copy_bytes(call.in.raw() + static_cast<std::size_t>(skip) * row, to, bytes);
    to += bytes;
  }
}

std::string all_to_all_mismatch(std::span<const Call> calls) {
  for (std::size_t s = 0; s < calls.size(); ++s) {
    for (std::size_t r = 0; r < calls.size(); ++r) {
      if (!same_row(calls[s].in, calls[r].out))
        return str("member ", s, " sends rows of ", calls[s].in.shape().text(), " to member ", r,
                   ", which receives into ", calls[r].out.shape().text());
      if (calls[s].send_counts[r] != calls[r].receive_counts[s])
        return str("member ", s, " sends ", calls[s].send_counts[r], " rows to member ", r,
                   ", which expects ", calls[r].receive_counts[s]);
    }
  }
  return {};
}

}  // namespace

std::string Call::text() const {
  std::string words(name_of(kind));
  if (kind == Kind::barrier) return words;
  if (kind == Kind::all_reduce) words += op == Reduce::sum ? " sum" : " max";
  words += str(" of ", moelab::name_of(in.dtype()), " ", in.shape().text());
  if (kind == Kind::broadcast) words += str(" from member ", root);
  if (kind == Kind::all_to_all_v)
    words += str(", rows sent ", list(send_counts), ", received ", list(receive_counts));
  return words;
}

std::string fault(const Call& call, int size) {
  const auto members = static_cast<std::size_t>(size);
  const bool same_dtype = call.in.dtype() == call.out.dtype();
  switch (call.kind) {
    case Call::Kind::all_gather:
      if (!same_dtype || call.out.numel() != call.in.numel() * size)
        return str("the output ", call.out.shape().text(), " does not hold ", size, " inputs");
      break;
    case Call::Kind::reduce_scatter:
      if (!same_dtype || call.in.numel() != call.out.numel() * size)
        return str("the input does not hold ", size, " outputs ", call.out.shape().text());
      break;
    case Call::Kind::all_to_all_v: {
      const auto fits = [&](const std::vector<Index>& counts, const Tensor& t) {
        return counts.size() == members && t.rank() >= 1 &&
               std::all_of(counts.begin(), counts.end(), [](Index n) { return n >= 0; }) &&
               std::accumulate(counts.begin(), counts.end(), Index{0}) == t.size(0);
      };
      if (!fits(call.send_counts, call.in) || !fits(call.receive_counts, call.out) ||
          !same_row(call.in, call.out))
        return str("the counts do not fit ", call.in.shape().text(), " and ",
                   call.out.shape().text(), " in a group of ", size);
      break;
    }
    case Call::Kind::broadcast:
      if (call.root < 0 || call.root >= size) return str("the group has ", size, " members");
      break;
    case Call::Kind::all_reduce:
    case Call::Kind::barrier:
      break;
  }
  const bool reduces =
      call.kind == Call::Kind::all_reduce || call.kind == Call::Kind::reduce_scatter;
  if (reduces && (call.in.dtype() == DType::u8 || call.in.dtype() == DType::bf16))
    return str(moelab::name_of(call.in.dtype()), " cannot be reduced");
  return {};
}

std::string mismatch(std::span<const Call> calls) {
  const Call& first = calls[0];
  for (std::size_t r = 1; r < calls.size(); ++r) {
    const Call& call = calls[r];
    const bool ragged = first.kind == Call::Kind::all_to_all_v;
    if (call.kind != first.kind || call.op != first.op || call.root != first.root ||
        call.in.dtype() != first.in.dtype() || (!ragged && call.in.shape() != first.in.shape()))
      return str("member 0 calls ", first.text(), ", member ", r, " calls ", call.text());
  }
  return first.kind == Call::Kind::all_to_all_v ? all_to_all_mismatch(calls) : std::string{};
}

void perform(std::span<const Call> calls, int me) {
  const auto at = static_cast<std::size_t>(me);
  switch (calls[at].kind) {
    case Call::Kind::all_reduce:
      return all_reduce(calls, at);
    case Call::Kind::all_gather:
      return all_gather(calls, at);
    case Call::Kind::reduce_scatter:
      return reduce_scatter(calls, at);
    case Call::Kind::all_to_all_v:
      return all_to_all_v(calls, at);
    case Call::Kind::broadcast:
      return copy_bytes(calls[static_cast<std::size_t>(calls[at].root)].in.raw(),
                        calls[at].out.raw(), calls[at].out.bytes());
    case Call::Kind::barrier:
      return;
  }
}

Index bytes_sent(const Call& call, int me, int size) {
  const auto in = static_cast<Index>(call.in.bytes());
  const Index others = size - 1;
  switch (call.kind) {
    case Call::Kind::all_reduce:
      return 2 * in * others / size;
    case Call::Kind::all_gather:
      return in * others;
    case Call::Kind::reduce_scatter:
      return in * others / size;
    case Call::Kind::all_to_all_v:
      return (call.in.size(0) - call.send_counts[static_cast<std::size_t>(me)]) *
             static_cast<Index>(row_bytes(call.in));
    case Call::Kind::broadcast:
      return me == call.root ? in * others : 0;
    case Call::Kind::barrier:
      return 0;
  }
  return 0;
}

}  // namespace moelab
