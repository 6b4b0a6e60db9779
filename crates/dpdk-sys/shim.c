#include "shim.h"

#include <string.h>

int dpdk_errno(void) { return rte_errno; }

unsigned int dpdk_lcore_id(void) { return rte_lcore_id(); }

static inline void look(struct dpdk_packet *packet, struct rte_mbuf *mbuf) {
    packet->mbuf = mbuf;
    packet->data = rte_pktmbuf_mtod(mbuf, uint8_t *);
    packet->flags = mbuf->ol_flags;
    packet->data_len = mbuf->data_len;
    packet->packet_len = mbuf->pkt_len;
}

/* More than anybody asks for in one call. */
#define BURST 64

uint16_t dpdk_rx_burst(uint16_t port, uint16_t queue, struct dpdk_packet *packets, uint16_t count) {
    struct rte_mbuf *mbufs[BURST];
    uint16_t got = rte_eth_rx_burst(port, queue, mbufs, count < BURST ? count : BURST);
    for (uint16_t i = 0; i < got; i++)
        look(&packets[i], mbufs[i]);
    return got;
}

uint16_t dpdk_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count) {
    return rte_eth_tx_burst(port, queue, mbufs, count);
}

int dpdk_alloc(struct rte_mempool *pool, uint32_t len, struct dpdk_packet *packets, unsigned int count) {
    struct rte_mbuf *mbufs[BURST];
    if (count > BURST || len + RTE_PKTMBUF_HEADROOM > rte_pktmbuf_data_room_size(pool))
        return -EINVAL;
    int failure = rte_pktmbuf_alloc_bulk(pool, mbufs, count);
    if (failure != 0)
        return failure;
    for (unsigned int i = 0; i < count; i++) {
        mbufs[i]->data_len = (uint16_t)len;
        mbufs[i]->pkt_len = len;
        look(&packets[i], mbufs[i]);
    }
    return 0;
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
    mbuf->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_UDP_CKSUM;
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

uint16_t dpdk_data_room(struct rte_mempool *pool) { return rte_pktmbuf_data_room_size(pool); }
