# SPDX-License-Identifier: Apache-2.0
"""From records to evidence: metrics and statistics, none of which needs a model."""
