"""The loop: observe, plan, execute, report. All effects of the operator start here."""
