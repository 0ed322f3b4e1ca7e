"""Run moto's server with what it lacks for our examples: ``emulator.py -H HOST -p PORT``, by a Python that has moto.

It keeps no tags of autoscaling and budgets: it says that there are none. It keeps who is told of a budget, and shows it here. Of
EMR Serverless it knows neither the name of Spark as AWS answers it nor the releases with Spark 4: it makes an application of
those that it knows, shows the ones that were asked for, and does not start it at once.
"""
# ruff: noqa: INP001 - a program of its own

from __future__ import annotations

import json
import sys
from typing import Any

from moto.applicationautoscaling.responses import ApplicationAutoScalingResponse
from moto.budgets.responses import BudgetsResponse
from moto.emrserverless.models import EMRServerlessBackend
from moto.server import main

KNOWN = {"application_type": "SPARK", "release_label": "emr-7.0.0"}
_create = EMRServerlessBackend.create_application


def create_application(backend: Any, **asked: Any) -> Any:
    """Create an application as moto does, whatever the release."""
    made = _create(backend, **asked | KNOWN)
    for name in KNOWN:
        setattr(made, name, asked[name])
    made.state = "CREATED"
    return made


def describe_subscribers_for_notification(asked: Any) -> str:
    """Return who is told of a budget: the subscribers of the notification with the given members."""
    wanted = asked._get_param("Notification")
    budget = asked.backend.budgets[asked._get_param("AccountId")][asked._get_param("BudgetName")]
    (found,) = [each for each in budget.notifications if wanted.items() <= each.details.items()]
    return json.dumps({"Subscribers": found.subscribers})


BudgetsResponse.list_tags_for_resource = lambda _: json.dumps({"ResourceTags": []})
BudgetsResponse.describe_subscribers_for_notification = describe_subscribers_for_notification
ApplicationAutoScalingResponse.list_tags_for_resource = lambda _: json.dumps({"Tags": {}})
EMRServerlessBackend.create_application = create_application
sys.exit(main(sys.argv[1:]))
