-- One more move of a job, as two fields of its record: how many there were, and `state ms attempt node reason`.
-- Each of the last KEPT moves has a field of its own: values this short keep the hash in Redis's compact form.
local KEPT = 24
local function remembered(steps, state, at_ms, attempt, node, reason)
  steps = tonumber(steps) or 0
  return 'steps', steps + 1, 'step' .. steps % KEPT,
    state .. ' ' .. at_ms .. ' ' .. attempt .. ' ' .. node .. ' ' .. reason
end
