"""The judge judged: golden scenarios, random runs broken on purpose, and a checker by bare definition."""
