"""Durable worlds on serverless infrastructure."""
