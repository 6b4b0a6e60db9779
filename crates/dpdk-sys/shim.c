#include "shim.h"

#include <errno.h>
#include <string.h>

#include <rte_ring.h>

int dpdk_errno(void) { return rte_errno; }

unsigned int dpdk_lcore_id(void) { return rte_lcore_id(); }

/* What Rust takes out of an mbuf by the offsets in shim.h. */
#define SIZE(field) sizeof(((struct rte_mbuf *)0)->field)
_Static_assert(SIZE(buf_addr) == 8 && SIZE(ol_flags) == 8 && SIZE(pkt_len) == 4, "mbufs are different now");
_Static_assert(SIZE(data_off) == 2 && SIZE(data_len) == 2, "mbufs are different now");

uint16_t dpdk_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count) {
    uint16_t got = rte_eth_rx_burst(port, queue, mbufs, count);
    for (uint16_t i = 0; i < got; i++) {
        /* Headers are two lines, or three, each of which may still be another core's: all are asked for at once. */
        const uint8_t *data = rte_pktmbuf_mtod(mbufs[i], const uint8_t *);
        __builtin_prefetch(data);
        __builtin_prefetch(data + RTE_CACHE_LINE_SIZE);
        __builtin_prefetch(data + 2 * RTE_CACHE_LINE_SIZE);
    }
    return got;
}

uint16_t dpdk_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count) {
    return rte_eth_tx_burst(port, queue, mbufs, count);
}

static inline void size(struct rte_mbuf *mbuf, uint32_t len) {
    mbuf->data_len = (uint16_t)len;
    mbuf->pkt_len = len;
}

int dpdk_alloc(struct rte_mempool *pool, uint32_t len, struct rte_mbuf **mbufs, unsigned int count) {
    if (len + RTE_PKTMBUF_HEADROOM > rte_pktmbuf_data_room_size(pool))
        return -EINVAL;
    int failure = rte_pktmbuf_alloc_bulk(pool, mbufs, count);
    if (failure != 0)
        return failure;
    for (unsigned int i = 0; i < count; i++)
        size(mbufs[i], len);
    return 0;
}

struct rte_mbuf *dpdk_alloc_one(struct rte_mempool *pool, uint32_t len) {
    struct rte_mbuf *mbuf = rte_pktmbuf_alloc(pool);
    if (mbuf != NULL)
        size(mbuf, len);
    return mbuf;
}

void dpdk_cut(struct rte_mbuf *mbuf, uint16_t len) {
    if (mbuf->nb_segs != 1 || len > mbuf->data_len)
        return;
    mbuf->data_len = len;
    mbuf->pkt_len = len;
}

void dpdk_free(struct rte_mbuf *mbuf) { rte_pktmbuf_free(mbuf); }

void dpdk_ask_udp_checksum(struct rte_mbuf *mbuf, uint16_t l2_len, uint16_t l3_len) {
    mbuf->l2_len = l2_len;
    mbuf->l3_len = l3_len;
    mbuf->ol_flags |= (l3_len == 40 ? RTE_MBUF_F_TX_IPV6 : RTE_MBUF_F_TX_IPV4) | RTE_MBUF_F_TX_UDP_CKSUM;
}

uint32_t dpdk_gather(const struct rte_mbuf *mbuf, uint8_t *to, uint32_t room) {
    uint32_t done = 0;
    for (; mbuf != NULL && mbuf->data_len <= room - done; mbuf = mbuf->next) {
        memcpy(to + done, rte_pktmbuf_mtod(mbuf, const uint8_t *), mbuf->data_len);
        done += mbuf->data_len;
    }
    return done;
}

int dpdk_chain(struct rte_mbuf *head, struct rte_mbuf *next) { return rte_pktmbuf_chain(head, next); }

/* One reference is never given back, so this is never called; DPDK wants it all the same. */
static void nothing_to_free(void *bytes, void *opaque) {
    (void)bytes;
    (void)opaque;
}

void dpdk_share(struct rte_mbuf_ext_shared_info *shared) {
    shared->free_cb = nothing_to_free;
    shared->fcb_opaque = NULL;
    rte_mbuf_ext_refcnt_set(shared, 1);
}

uint16_t dpdk_shared(const struct rte_mbuf_ext_shared_info *shared) { return rte_mbuf_ext_refcnt_read(shared) - 1; }

int dpdk_attach(struct rte_mbuf *head, struct rte_mempool *pool, void *bytes, uint16_t len,
                struct rte_mbuf_ext_shared_info *shared) {
    struct rte_mbuf *mbuf = rte_pktmbuf_alloc(pool);
    if (mbuf == NULL)
        return -ENOMEM;
    rte_mbuf_ext_refcnt_update(shared, 1);
    rte_pktmbuf_attach_extbuf(mbuf, bytes, RTE_BAD_IOVA, len, shared);
    mbuf->data_len = len;
    mbuf->pkt_len = len;
    int failure = rte_pktmbuf_chain(head, mbuf);
    if (failure != 0)
        rte_pktmbuf_free(mbuf);
    return failure;
}

uint16_t dpdk_data_room(struct rte_mempool *pool) { return rte_pktmbuf_data_room_size(pool); }

static void put_back(struct rte_mempool *pool, void *failure, void *mbuf, unsigned int index) {
    rte_pktmbuf_init(pool, NULL, mbuf, index);
    if (rte_mempool_ops_enqueue_bulk(pool, &mbuf, 1) != 0)
        *(int *)failure = -ENOBUFS;
}

int dpdk_refill(struct rte_mempool *pool) {
    const struct rte_mempool_ops *ops = rte_mempool_get_ops(pool->ops_index);
    /* Its memory is a ring, which can be emptied even if a process was killed within a call. */
    if (strncmp(ops->name, "ring_", 5) != 0)
        return -ENOTSUP;
    for (unsigned int core = 0; pool->local_cache != NULL && core < RTE_MAX_LCORE; core++)
        pool->local_cache[core].len = 0;
    rte_ring_reset(pool->pool_data);
    int failure = 0;
    rte_mempool_obj_iter(pool, put_back, &failure);
    return failure;
}

int dpdk_steer(uint16_t port, int ip_version, uint16_t udp_port, uint16_t queue, struct rte_flow **rule, int *valid) {
    struct rte_flow_attr attributes = {.ingress = 1};
    struct rte_flow_item_udp udp = {.hdr.dst_port = rte_cpu_to_be_16(udp_port)};
    struct rte_flow_item_udp mask = {.hdr.dst_port = RTE_BE16(0xffff)};
    struct rte_flow_item pattern[] = {
        {.type = RTE_FLOW_ITEM_TYPE_ETH},
        {.type = ip_version == 4 ? RTE_FLOW_ITEM_TYPE_IPV4 : RTE_FLOW_ITEM_TYPE_IPV6},
        {.type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &udp, .mask = &mask},
        {.type = RTE_FLOW_ITEM_TYPE_END},
    };
    struct rte_flow_action_queue to = {.index = queue};
    struct rte_flow_action actions[] = {
        {.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &to},
        {.type = RTE_FLOW_ACTION_TYPE_END},
    };
    struct rte_flow_error error = {0};
    *rule = NULL;
    *valid = 0;
    int refused = rte_flow_validate(port, &attributes, pattern, actions, &error);
    if (refused != 0)
        return refused;
    *valid = 1;
    *rule = rte_flow_create(port, &attributes, pattern, actions, &error);
    return *rule != NULL ? 0 : -(rte_errno > 0 ? rte_errno : EIO);
}

int dpdk_unsteer(uint16_t port, struct rte_flow *rule) {
    struct rte_flow_error error = {0};
    return rte_flow_destroy(port, rule, &error);
}

/* Larger tables than any card has. */
#define GROUPS 32

int dpdk_spread(uint16_t port, uint16_t size, uint16_t queues) {
    struct rte_eth_rss_reta_entry64 table[GROUPS] = {0};
    if (queues == 0 || size == 0 || size > GROUPS * RTE_ETH_RETA_GROUP_SIZE)
        return -EINVAL;
    for (uint16_t i = 0; i < size; i++) {
        table[i / RTE_ETH_RETA_GROUP_SIZE].mask |= UINT64_C(1) << (i % RTE_ETH_RETA_GROUP_SIZE);
        table[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE] = i % queues;
    }
    return rte_eth_dev_rss_reta_update(port, table, size);
}

int dpdk_spread_of(uint16_t port, uint16_t size, uint16_t *queues) {
    struct rte_eth_rss_reta_entry64 table[GROUPS] = {0};
    if (size == 0 || size > GROUPS * RTE_ETH_RETA_GROUP_SIZE)
        return -EINVAL;
    for (uint16_t i = 0; i < size; i++)
        table[i / RTE_ETH_RETA_GROUP_SIZE].mask |= UINT64_C(1) << (i % RTE_ETH_RETA_GROUP_SIZE);
    int result = rte_eth_dev_rss_reta_query(port, table, size);
    for (uint16_t i = 0; result == 0 && i < size; i++)
        queues[i] = table[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];
    return result;
}
