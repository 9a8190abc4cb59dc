"""Fitted models for other programs: NumPy arrays, ONNX, vector indexes and databases, MLflow.

Each function takes a fitted linear model; what it writes gives the same lists as ``model.recommend``.
"""

from offdiag.export.arrays import write_arrays
from offdiag.export.mlflow_model import save_mlflow
from offdiag.export.onnx_graph import write_onnx
from offdiag.export.vectors import Vectors, faiss_index, fill_qdrant, pgvector_sql, vectors

__all__ = [
    "Vectors",
    "faiss_index",
    "fill_qdrant",
    "pgvector_sql",
    "save_mlflow",
    "vectors",
    "write_arrays",
    "write_onnx",
]
