# SPDX-License-Identifier: Apache-2.0
"""From records to what people read: figures, tests, doubts, tables, a page. No model is needed, and none is loaded."""
