"""A cluster of two executors in one machine that Spark takes for two hosts: a second attempt of a task that is slow is
given to another host only, so `local-cluster` never starts one.

Its master and workers live in the driver's JVM, as those of `local-cluster` do; executors are processes of their own.
"""

import os
import sys

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from tests.spark.conftest import ROOT, SETTINGS

HOSTS = ("127.0.0.1", "127.0.0.2")
MEMORY_MB = 512


def start_cluster(directory: str, **settings: str) -> SparkSession:
    """A session on both hosts; executors work in `directory`."""
    os.environ["PYTHONPATH"] = str(ROOT)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = SparkConf().setAll({**SETTINGS, **settings}.items())
    conf.setAll([("spark.executor.memory", f"{MEMORY_MB}m"), ("spark.cores.max", str(len(HOSTS)))])
    gateway = launch_gateway(conf)
    conf.setMaster(_started(gateway, directory)).setAppName("lsmerge tests")
    return SparkSession(SparkContext(conf=conf, gateway=gateway))


def _started(gateway, directory: str) -> str:
    """The address of a new master that has one worker a host."""
    deploy = gateway.jvm.org.apache.spark.deploy
    conf = gateway.jvm.org.apache.spark.SparkConf(True)
    conf.set("spark.master.rest.enabled", "false").set("spark.ui.enabled", "false")
    address = deploy.master.Master.startRpcEnvAndEndpoint(HOSTS[0], 0, 0, conf)._1().address()
    urls = gateway.new_array(gateway.jvm.java.lang.String, 1)
    urls[0] = f"spark://{address.host()}:{address.port()}"
    start, nothing = deploy.worker.Worker.startRpcEnvAndEndpoint, gateway.jvm.scala.Option.empty()
    for number, host in enumerate(HOSTS):
        named = gateway.jvm.scala.Option.apply(number)
        start(host, 0, 0, 1, MEMORY_MB, urls, f"{directory}/{number}", named, conf, nothing)
    return urls[0]
