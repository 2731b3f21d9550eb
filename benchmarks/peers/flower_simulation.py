"""Flower's in-process simulation (Ray), two workers."""

import os

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_DEDUP_LOGS", "0")
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from benchmarks.peers import job as J

client = ClientApp()


@client.train()
def train(message: Message, context: Context):
    torch.set_num_threads(1)
    job = message.content["config"]["job"]
    parts, net = J.data(job)[0], J.model(job)  # data are made once per actor: `job` is a real module
    X, y = parts[int(context.node_config["partition-id"])]
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    J.local_sgd(net, X, y, job)
    content = {"arrays": ArrayRecord(net.state_dict()), "metrics": MetricRecord({"num-examples": len(y)})}
    return Message(content=RecordDict(content), reply_to=message)


def make_server(a, found):
    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Context):
        found["marks"] = []

        def evaluate(round, arrays):  # called for round 0 and after each round
            found["marks"].append(J.clock())
            found["state"] = arrays.to_torch_state_dict()
            return MetricRecord({"round": float(round)})

        FedAvg(fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=J.N_CLIENTS).start(
            grid=grid,
            initial_arrays=ArrayRecord(J.model(a.job).state_dict()),
            train_config=ConfigRecord({"job": a.job}),
            num_rounds=a.rounds,
            evaluate_fn=evaluate,
        )

    return server


if __name__ == "__main__":
    a = J.arguments()
    found = {}
    resources = {
        "init_args": {"num_cpus": 2, "include_dashboard": False},
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    }
    run_simulation(make_server(a, found), client, num_supernodes=J.N_CLIENTS, backend_config=resources)
    net = J.model(a.job)
    net.load_state_dict(found["state"])
    J.report("Flower", a.job, net, found["marks"], processes=2)
