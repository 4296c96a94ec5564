/* SPDX-License-Identifier: GPL-2.0-or-later */
/* forge_submit [--held] SCRIPT [NAME=VALUE...]: submits a batch job through Slurm's public API with these
 * entries in its control environment (spank_job_env), as a user without sbatch may. Prints the job id. */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *read_file(const char *path)
{
	char *text = calloc(1, 1 << 20);
	FILE *file = fopen(path, "r");

	if (!text || !file || fread(text, 1, (1 << 20) - 1, file) == 0) {
		fprintf(stderr, "forge_submit: cannot read %s\n", path);
		exit(3);
	}
	fclose(file);
	return text;
}

int main(int argc, char **argv)
{
	char *environment[] = { "PATH=/usr/bin:/bin", NULL };
	job_desc_msg_t job;
	submit_response_msg_t *response = NULL;
	char directory[4096];
	int held = argc > 1 && strcmp(argv[1], "--held") == 0;

	if (argc < 2 + held) {
		fprintf(stderr, "usage: forge_submit [--held] SCRIPT [NAME=VALUE...]\n");
		return 2;
	}
	slurm_init(NULL);
	slurm_init_job_desc_msg(&job);
	job.name = "forged";
	job.user_id = getuid();
	job.group_id = getgid();
	job.work_dir = getcwd(directory, sizeof directory);
	job.script = read_file(argv[1 + held]);
	job.environment = environment;
	job.env_size = 1;
	job.min_nodes = 1;
	job.std_out = "/dev/null";
	if (held)
		job.priority = 0;
	job.spank_job_env = argv + 2 + held;
	job.spank_job_env_size = (uint32_t)(argc - 2 - held);
	if (slurm_submit_batch_job(&job, &response) != SLURM_SUCCESS) {
		fprintf(stderr, "forge_submit: error: %s: %s\n", slurm_strerror(errno),
			response && response->job_submit_user_msg ? response->job_submit_user_msg : "");
		return 1;
	}
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(25, 11, 0)
	printf("%u\n", response->job_id);
#else
	printf("%u\n", response->step_id.job_id);
#endif
	return 0;
}
