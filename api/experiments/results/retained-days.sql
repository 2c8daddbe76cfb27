-- Who started (a denominator), on the day that they did, and who of them came back in the window after it.
        SELECT
            entity,
            variant,
            saw_several,
            exposed_at,
            multiIf(not_started, -2, is_before, -1, dateDiff('day', {first_day:Date32}, toDate32(happened.1, {timezone:String}))) AS day,
            happened.2 AS events, toInt256(happened.2) AS wholes, 0. AS rests,
            1 - happened.2 AS below_events, toInt256(1 - happened.2) AS below_wholes, 0. AS below_rests
        FROM
        (
            SELECT
                entity,
                variant,
                saw_several,
                exposed_at,
                timestamp < exposed_at AS is_before,
                countIf(starts) = 0 AS not_started,
                if({last_seen:Bool}, maxIf(timestamp, starts), minIf(timestamp, starts)) AS started,
                arraySort(groupArrayIf(timestamp, bitTest(steps, 0))) AS returns,
                arrayFilter(at -> at >= started, returns) AS later,
                -- The event that starts is no return, even where it is one by its name.
                if(has(groupArrayIf(timestamp, starts AND bitTest(steps, 0)), started), arrayPopFront(later), later) AS others,
                arrayFilter(at -> {{returns_in_time}}, others) AS returned
            FROM
            (
                SELECT *, bitTest(steps, 1) AND {{counts}} AS starts
                FROM happenings
                RIGHT JOIN exposures USING (entity)
            )
            GROUP BY entity, variant, saw_several, exposed_at, is_before
        )
        ARRAY JOIN if(not_started OR empty(returned), [(started, 0)], [(started, 0), (returned[1], 1)]) AS happened
