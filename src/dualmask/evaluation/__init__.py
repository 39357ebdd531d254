# SPDX-License-Identifier: Apache-2.0
"""How defences are measured: the protocol, records of every text, grids, metrics and statistics."""
