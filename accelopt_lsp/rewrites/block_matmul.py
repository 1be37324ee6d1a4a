"""Block a matrix product so that loaded tiles are reused.

Before::

    for m in affine_range(M // 128):
        for n in affine_range(N // 512):
            acc = zeros((128, 512), buffer=psum)
            for k in affine_range(K // 128):
                a = load(lhsT[k, m])                # [128, 128], again for every n
                b = load(rhs[k, n])                 # [128, 512], again for every m
                acc += matmul(a, b)
            store(result[m, n], copy(acc))

After::

    for m_block in affine_range(M // BLOCK_M):
        a[0:K] = wide loads of lhsT[:, m_block]     # once
        for n_block in affine_range(N // BLOCK_N):
            b[0:K] = wide loads of rhs[:, n_block]  # once per m_block
            for m, n in the block:
                acc = zeros(...)
                for k: acc += matmul(a[k][m], b[k][n])
                store(result[m, n], copy(acc))
"""

from __future__ import annotations

from accelopt_lsp.rewrites.base import Description, NotApplicable, RewriteContext, Site
from accelopt_lsp.rewrites.block_k_edits import emitter
from accelopt_lsp.rewrites.block_plans import Plan, choose_plans, naive_bytes, plan_for, varied
from accelopt_lsp.rewrites.matmul_nest import MatmulNest, find_nests, why_not

NAME = "block-matmul"
_SITES = 5
_LESS = 0.8
"""Only choices that read less than this share of today's bytes are offered."""


class BlockMatmul:
    """Recognises a tiled product and rewrites it into a blocked one."""

    name = NAME
    title = "Block the matrix product"
    tags = ("dma", "nc_matmul", "loop-nest", "reuse")
    description = Description(
        title=title,
        strategy=(
            "When a tiled matrix product reloads its input tiles for every output tile, HBM "
            "traffic grows with the number of output tiles and DMA bounds the kernel. Keep a "
            "block of one operand on chip (all of K), stream blocks of the other past it, and "
            "load each block with wide transfers. Traffic drops by the number of tiles per "
            "block, and the Tensor Engine becomes the bound."
        ),
        before=(
            "for m in range(M_TILES):\n    for n in range(N_TILES):\n        acc = psum tile\n"
            "        for k in range(K_TILES):\n            a = load(lhsT[k, m])\n"
            "            b = load(rhs[k, n])\n            acc += matmul(a, b)\n"
            "        store(out[m, n], acc)"
        ),
        after=(
            "for m_block in range(M_TILES // BM):\n"
            "    a[k] = load(lhsT[k, m_block])  # for all k, BM tiles wide\n"
            "    for n_block in range(N_TILES // BN):\n"
            "        b[k] = load(rhs[k, n_block])  # for all k, BN tiles wide\n"
            "        for m in m_block, n in n_block:\n            acc = psum tile\n"
            "            for k in range(K_TILES):\n"
            "                acc += matmul(a[k][m], b[k][n])\n"
            "            store(out[m, n], acc)"
        ),
        bottlenecks=("dma", "latency"),
        instructions=("nc_matmul", "dma_copy"),
        pattern="loops over M, N and K tiles with loads in the innermost one",
    )

    def find(self, context: RewriteContext) -> tuple[Site, ...]:
        sites: list[Site] = []
        for nest in find_nests(context.model):
            now = sum(naive_bytes(nest, o) for o in nest.operands)
            plans = [p for p in choose_plans(context, nest) if p.hbm_bytes < _LESS * now]
            for plan in varied(plans)[:_SITES]:
                site = self._site(nest, plan, len(sites))
                try:
                    emitter(context, nest, plan).text()
                except NotApplicable:
                    continue
                sites.append(site)
        return tuple(sites)

    def _site(self, nest: MatmulNest, plan: Plan, rank: int) -> Site:
        line = nest.product.node.lineno
        block_m, block_n = plan.blocks
        deep = plan.depth is not None
        what = f"{plan.depth} tiles of K" if deep else f"the {plan.resident} operand"
        now = sum(naive_bytes(nest, o) for o in nest.operands)
        return Site(
            NAME,
            f"{NAME}:{line}:{f'k{plan.depth}' if deep else plan.resident}:{block_m}x{block_n}",
            f"Block the product in line {line} by {block_m} x {block_n} output tiles and keep "
            f"{what} on chip",
            {"line": line, **plan.parameters},
            f"loads {plan.hbm_bytes / 1e6:.0f} MB from HBM instead of {now / 1e6:.0f} MB; blocks "
            f"take {plan.partition_bytes / 1024:.0f} KiB of SBUF per partition",
            line,
            rank,
        )

    def apply(self, context: RewriteContext, site: Site) -> str:
        parameters = site.parameters
        nests = find_nests(context.model)
        line = parameters.get("line")
        chosen = [n for n in nests if line is None or n.product.node.lineno == line]
        if not chosen:
            raise NotApplicable(why_not(context.model, line))
        plan = plan_for(context, chosen[0], parameters)
        return emitter(context, chosen[0], plan).text()
