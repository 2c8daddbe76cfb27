-- The events of a person that have a value: of the metric, and of its denominator.
        SELECT
            entity,
            variant,
            saw_several,
            exposed_at,
            bitTest(steps, 0) AND number IS NOT NULL AS is_own,
            bitTest(steps, 1) AND below IS NOT NULL AS is_below,
            toInt32(multiIf(
                NOT ({{counts}} AND (is_own OR is_below)), -2,
                timestamp < exposed_at, -1,
                dateDiff('day', {first_day:Date32}, toDate32(timestamp, {timezone:String})))) AS day,
            if(is_own, assumeNotNull(number), 0) AS own,
            if(is_below, assumeNotNull(below), 0) AS own_below
        FROM happenings
        RIGHT JOIN exposures USING (entity)
