// Loses one in fifty of the frames that arrive, and hands the others to the XDP socket.
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __uint(max_entries, 64);
    __type(key, int);
    __type(value, int);
} xsks_map SEC(".maps");

SEC("xdp")
int lossy(struct xdp_md *frame) {
    if (bpf_get_prandom_u32() % 50 == 0)
        return XDP_DROP;
    return bpf_redirect_map(&xsks_map, frame->rx_queue_index, XDP_PASS);
}

char _license[] SEC("license") = "Dual MIT/GPL";
