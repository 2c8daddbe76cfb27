-- The values of a person on each day with an event of the metric: of its first step, and of the second (a denominator).
        SELECT
            entity,
            variant,
            saw_several,
            exposed_at,
            multiIf(NOT ({{counts}}), -2, timestamp < exposed_at, -1, dateDiff('day', {first_day:Date32}, toDate32(timestamp, {timezone:String}))) AS day,
            countIf(bitTest(steps, 0) AND number IS NOT NULL) AS events,
            -- Whole numbers add up exactly, however large. What is left of each is below 1.
            sumIf(toInt256(whole), bitTest(steps, 0)) AS wholes,
            sumIf(ifNull(number, 0) - whole, bitTest(steps, 0)) AS rests,
            countIf(bitTest(steps, 1) AND below IS NOT NULL) AS below_events,
            sumIf(toInt256(below_whole), bitTest(steps, 1)) AS below_wholes,
            sumIf(ifNull(below, 0) - below_whole, bitTest(steps, 1)) AS below_rests
        FROM happenings
        RIGHT JOIN exposures USING (entity)
        GROUP BY entity, variant, saw_several, exposed_at, day
